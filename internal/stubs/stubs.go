// Package stubs keeps the rows that dead letters without a payload need: those of every relay of a table, whichever configuration removes
// rows; see docs/maintainers/dead-letters.md.
package stubs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/retention"
	"github.com/cdc-relay/cdc-relay/internal/scan"
	"github.com/cdc-relay/cdc-relay/internal/source"
	"github.com/cdc-relay/cdc-relay/internal/stages"
)

// MayStub lets letters be without their payload once all who remove rows can know of them. While the database is away it waits.
func MayStub(c *config.Config, db source.Database, log *slog.Logger) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		for {
			asking, cancel := context.WithTimeout(ctx, recordTimeout)
			err := source.Unrecorded(asking, db)
			cancel()
			switch {
			case err == nil || ctx.Err() != nil:
				return ctx.Err()
			case errors.As(err, new(source.UnrecordedError)):
				return cdc.Stop(cdc.ClassConfig, "dead_letter_without_payload",
					fmt.Errorf("an event is too large for topic %q of dead letters, so that only its row would have the payload: %w", c.DeadLetter.Topic, err),
					fmt.Sprintf("%s; or set max.message.bytes of topic %s to %d", cdc.Fix(err), c.DeadLetter.Topic, kafka.LetterBytes))
			}
			log.Warn("dead letters wait until it is known that the row of one without its payload is kept", cdc.Repeats(), slog.Any("error", err))
			select {
			case <-time.After(recordPause):
			case <-ctx.Done():
			}
		}
	}
}

const (
	recordTimeout = 5 * time.Second
	recordPause   = time.Second
)

// Guard returns what keeps rows while dead letters of any relay of the tables may need them. others are configurations of relays whose
// letters may be in another Kafka.
func Guard(c *config.Config, db source.Database, dsn source.ConnString, others []*config.Config) retention.Guard {
	return (&needed{c, db, dsn, others}).check
}

// needed says whether rows are needed: no pass removes rows while it may be so.
type needed struct {
	config *config.Config
	db     source.Database
	dsn    source.ConnString
	others []*config.Config
}

// check returns an error that names dead letters of any relay whose payload is only in a table of the configuration; nil if there are
// none.
func (n *needed) check(ctx context.Context) error {
	records, err := n.db.LetterRecords(ctx, n.dsn)
	if err != nil {
		return err
	}
	records = append(records, n.db.OwnLetters()...)
	slices.SortFunc(records, func(a, b outbox.LetterRecord) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), strings.Compare(a.Source, b.Source))
	})
	for _, r := range slices.CompactFunc(records, sameLetters) {
		of, err := n.configOf(r)
		if err == nil {
			err = n.stubsOf(ctx, r, of)
		}
		if err != nil {
			return err
		}
	}
	if len(records) > 0 {
		return nil
	}
	// A relay of an earlier version wrote no record.
	err = n.stubsOf(ctx, outbox.LetterRecord{Topic: config.DefaultLetterTopic(n.config.Database())}, n.config)
	if errors.Is(err, kafka.ErrTopicMissing) {
		return nil
	}
	return err
}

// sameLetters reports whether two records are of the letters of one relay; each of its tables has a record.
func sameLetters(a, b outbox.LetterRecord) bool { return a.Topic == b.Topic && a.Source == b.Source }

// configOf returns the configuration of a record's relay; nil: it is not known.
func (n *needed) configOf(r outbox.LetterRecord) (*config.Config, error) {
	for _, c := range append([]*config.Config{n.config}, n.others...) {
		db, err := source.New(c)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(db.OwnLetters(), func(own outbox.LetterRecord) bool { return sameLetters(own, r) }) {
			return c, nil
		}
	}
	return nil, nil
}

// stubsOf looks at the letters of one relay. of is its configuration; if that is nil they may be in another Kafka.
func (n *needed) stubsOf(ctx context.Context, r outbox.LetterRecord, of *config.Config) error {
	c := *cmp.Or(of, n.config)
	c.DeadLetter.Topic = r.Topic
	list, read, err := stages.LetterDesk(&c).List(ctx, deadletter.Filter{Stubs: true})
	elsewhere := func(here string) error {
		return cdc.Fixable("run `cdc-relay partitions run --letters-of FILE` from a timer in place of this pass, where FILE is the configuration of that relay; if that relay is gone for good, run `"+n.db.ForgetLetters(r)+"`",
			"dead letters of relay %q may need these rows, and that relay has another Kafka than %s, where topic %q %s", r.Source, strings.Join(c.Kafka.Brokers, ","), r.Topic, here)
	}
	switch {
	case of == nil && errors.Is(err, kafka.ErrTopicMissing):
		return elsewhere("does not exist")
	case err != nil:
		return err
	case of == nil && read.Source != nil:
		if of := source.LetterSource(read.Source.SystemID, read.Source.Database, read.Source.Slot); of != r.Source {
			return elsewhere(fmt.Sprintf("has those of relay %q", of))
		}
	}
	if len(list) == 0 {
		return nil
	}
	return cdc.Fixable("see the reasons with `cdc-relay dlq list` and the configuration of that relay; once they are repaired, publish the letters with `cdc-relay dlq retry --all --yes`, or drop those that nobody needs",
		"the payload of %s of relay %q is only in the outbox table, that of %s among them", display.Plural(len(list), "dead letter"), cmp.Or(r.Source, "unknown"), list[0].Letter)
}

// Row reads the row of a letter that is too large for its topic.
func Row(ctx context.Context, db source.Database, l *deadletter.Letter) (*cdc.Batch, error) {
	tables := db.Tables()
	i := slices.IndexFunc(tables, func(t source.Table) bool { return t.Name.String() == l.Table })
	if i < 0 {
		return nil, fmt.Errorf("its payload is only in table %s, which is not configured", l.Table)
	}
	dsn, err := db.ConnString("")
	if err != nil {
		return nil, err
	}
	reader, err := db.Reader(ctx, dsn, &tables[i])
	if err != nil {
		return nil, err
	}
	defer reader.Close(ctx)
	rows := 0
	var row *cdc.Batch
	err = scan.Fetch(ctx, reader, l.ID, func(b *cdc.Batch) error {
		rows += len(b.Txs)
		row = b
		return nil
	})
	if err == nil && rows != 1 {
		err = fmt.Errorf("its payload is only in table %s, which has %s with this event ID", l.Table, display.Plural(rows, "row"))
	}
	return row, err
}
