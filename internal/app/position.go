package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/cleanup"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/display"
)

// Positions shows and moves the stored positions of a relay.
type Positions struct {
	places *checkpoint.Places
	db     positioned
	printf Printf
	dsn    ConnString // the relay's
}

// positioned is a database that is connected for one command about positions.
type positioned interface {
	Database
	// inspect reads what is stored, which the other methods then know.
	inspect(ctx context.Context, load cdc.Resumer) (*cdc.Inspection, error)
	// parse takes a position as people write it, or [earliest] or [current].
	parse(text string) (cdc.Position, error)
	// idle returns an error while a relay may move the positions itself.
	idle(ctx context.Context) error
	// preview returns what a move means, or why it cannot be made.
	preview(to cdc.Position) (cdc.Move, error)
	// moveSlot moves the slot, where there is one, after the position was stored.
	moveSlot(ctx context.Context, to cdc.Position) error
	// named is a position for people.
	named(at cdc.Position) string
	// amount is a part of the WAL or binlog; see [cdc.Move].
	amount(n uint64) string
	// atReset says where the next run continues if no position is stored.
	atReset() string
	// show describes what is stored.
	show(d *described) shown
	close(ctx context.Context)
}

// described is what position show says of every database.
type described struct {
	place, loadError, refused string

	found *cdc.Checkpoint // nil: none
	saved shownSaved
}

// shownSaved says in JSON how a checkpoint was saved.
type shownSaved struct {
	LastEventID string     `json:"last_event_id,omitempty"`
	Generation  uint64     `json:"generation"`
	Sequence    uint64     `json:"sequence"`
	SavedAt     *time.Time `json:"saved_at,omitempty"`
}

// shown is what position show says of a database: as JSON, and the lines before and behind those of the checkpoint.
type shown struct {
	answer     any
	head, tail [][2]string
	// Position and last commit of the checkpoint, and where a run would continue.
	at, commit, next string
}

// WithPositions calls fn with the positions of a relay.
func WithPositions(ctx context.Context, c *config.Config, db Database, printf Printf, fn func(*Positions) error) error {
	places, err := Places(ctx, c)
	if err != nil {
		return err
	}
	defer func() { _ = places.Close() }()
	connected, err := db.positioned(ctx)
	if err != nil {
		return err
	}
	defer connected.close(ctx)
	return fn(&Positions{places, connected, printf, c.ConnString})
}

// Show returns the stored positions and where a run would continue, as JSON and as lines.
func (p *Positions) Show(ctx context.Context) (answer any, lines [][2]string, err error) {
	in, err := p.db.inspect(ctx, p.places.Resume)
	if err != nil {
		return nil, nil, err
	}
	d := described{place: p.places.Location()}
	if c := &in.Checkpoint; in.Found {
		d.found, d.saved = c, shownSaved{c.LastEventID, c.Generation, c.Sequence, &c.SavedAt}
	} else if in.LoadErr != nil {
		d.loadError = cdc.Explain(in.LoadErr)
	}
	if in.Refused != nil {
		d.refused = cdc.Explain(in.Refused)
	}
	s := p.db.show(&d)
	if d.refused != "" {
		s.next = "refused: " + d.refused
	}
	return s.answer, slices.Concat(s.head, d.lines(&s), s.tail, [][2]string{{"next start", s.next}}), nil
}

// lines are those about the checkpoint.
func (d *described) lines(s *shown) [][2]string {
	const name = "checkpoint (C)"
	switch c := d.found; {
	case d.place == "":
		return [][2]string{{name, "none configured"}}
	case d.loadError != "":
		return [][2]string{{name, "cannot be read: " + d.loadError}}
	case c == nil:
		return [][2]string{{name, "none yet in " + d.place}}
	default:
		return [][2]string{
			{name, s.at + "  " + d.place},
			{"last outbox commit", s.commit},
			{"last event", display.OrNone(c.LastEventID)},
			{"saved", fmt.Sprintf("%s, generation %d, save %d", c.SavedAt.Format(time.RFC3339), c.Generation, c.Sequence)},
		}
	}
}

// The positions that have a name: where the WAL or binlog that the relay can still read begins, and where it ends now.
const (
	earliest = "earliest"
	current  = "current"
)

// Set moves the position, and prints what that means. If events would be skipped, it is an error unless skip is given.
func (p *Positions) Set(ctx context.Context, text string, skip bool) error {
	in, err := p.db.inspect(ctx, p.places.Resume)
	if err != nil {
		return err
	}
	to, err := p.db.parse(text)
	if err == nil {
		err = p.db.idle(ctx)
	}
	if err == nil {
		err = checkpoint.Settable(in.LoadErr, in.Refused, in.Found)
	}
	if err != nil {
		return err
	}
	move, err := p.db.preview(to)
	if err != nil {
		return err
	}
	switch first, lost := !in.Found && in.Source.Slot == "", omitted(in); { // first: what was published before is not known
	case skip:
	case lost != nil:
		return lost
	case first && text == current:
		return cdc.Usage("give --skip-events if that is meant", "no position is stored, so events committed until now and not published would never be")
	case move.Skips > 0:
		return cdc.Usage("give --skip-events if that is meant", "%s skips %s, whose unpublished events would never be published", p.db.named(move.To), p.db.amount(move.Skips))
	}
	next := checkpoint.Moved(in.Checkpoint, in.Source, move.To, move.KeepsCommit)
	if in.Source.Slot == "" { // the server may be a restored one, which this position fits
		next.Progress.Commit = ""
	}
	if err := p.places.Set(ctx, next); err != nil {
		return err
	}
	if move.Slot && move.Skips > 0 {
		if err := p.db.moveSlot(ctx, move.To); err != nil {
			return err
		}
	}
	p.reportMove(move, in)
	return nil
}

// omitted is for a checkpoint that alone tells a run that events are missing: one in its place would not. On MySQL and MariaDB the binlog
// tells.
func omitted(in *cdc.Inspection) error {
	tells := []string{"history_lost", "timeline_fork", "backfill_unfinished", cdc.PublicationAltered}
	if in.Source.Slot == "" || !slices.Contains(tells, cdc.ReasonOf(in.Refused)) {
		return nil
	}
	return cdc.Usage(cdc.Fix(in.Refused)+"; or give --skip-events if consumers have what is missing", "%s; afterwards nothing would tell that events are missing", in.Refused)
}

func (p *Positions) reportMove(m cdc.Move, was *cdc.Inspection) {
	p.printf("position is %s now", p.db.named(m.To))
	switch part := was.Checkpoint.Progress.Part; {
	case m.Skips > 0 || m.Repeats > 0:
	case !was.Found && was.Source.Slot == "":
		p.printf(", the first one stored")
	case part.TxID == "":
		p.printf(", as it was")
	default: // what is stored may be within a transaction
		p.printf(", as it was, before transaction %s; its first %s, published already, will be published again", part.TxID, display.Plural(int(part.Rows), "row"))
	}
	if m.Skips > 0 {
		p.printf("; %s skipped, whose unpublished events will never be published", p.db.amount(m.Skips))
	}
	if m.Repeats > 0 {
		p.printf("; %s repeated, whose events are published again", p.db.amount(m.Repeats))
	}
	p.printf("\n")
}

// OrStart names the position before the first transaction, which is an empty GTID set.
func OrStart(p cdc.Position) string {
	if p == "" {
		return "the start of the binlog"
	}
	return string(p)
}

// Current returns where the WAL or binlog ends.
func (p *Positions) Current(ctx context.Context) (cdc.Position, error) {
	if _, err := p.db.inspect(ctx, p.places.Resume); err != nil {
		return "", err
	}
	return p.db.parse(current)
}

// Reset drops what is stored beside the slot, and prints what it did. If events would be skipped or another relay's position dropped, it is
// an error unless skip or force is given.
func (p *Positions) Reset(ctx context.Context, skip, force bool) error {
	in, err := p.db.inspect(ctx, p.places.Resume)
	if err == nil {
		err = p.db.idle(ctx)
	}
	if err == nil {
		err = checkpoint.Resettable(in.LoadErr)
	}
	if err == nil && !force {
		err = checkpoint.Foreign(in.LoadErr)
	}
	if err != nil {
		return err
	}
	switch location := p.places.Location(); {
	case location == "":
		p.printf("no checkpoint is configured: the slot alone holds the position\n")
		return nil
	case !in.Found && in.LoadErr == nil:
		p.printf("no checkpoint is stored in %s: %s\n", location, p.db.atReset())
		return nil
	case omitted(in) != nil && !skip:
		return omitted(in)
	case cdc.ReasonOf(in.Refused) == "table_left" && !skip:
		return cdc.Usage("give --skip-events if its events are not to be published any more", "%w; without the checkpoint nothing would tell", in.Refused)
	case cdc.ReasonOf(in.Refused) == "slot_ahead" && !skip:
		return cdc.Usage("give --skip-events if they were published or are not needed", "slot %q is ahead of the checkpoint, so events between them may never have been published", in.Source.Slot)
	}
	kept, err := p.places.DropRead(ctx)
	if err != nil {
		return err
	}
	p.reportReset(kept)
	return nil
}

// reportReset prints what was dropped, and what was kept.
func (p *Positions) reportReset(kept bool) {
	at := p.places
	was := func(found bool, c *cdc.Checkpoint) string {
		if !found {
			return ""
		}
		return " (its position was " + p.db.named(c.Progress.Position) + ")"
	}
	if !kept && (at.ExactlyOnce || at.Counts()) {
		p.printf("position in Kafka topic %s: dropped%s\n", at.Topic, was(at.Committed, &at.Last))
	}
	if store := at.Place(); store != "" {
		p.printf("checkpoint in %s: dropped%s\n", store, was(at.Found, &at.Stored))
	}
	if kept {
		p.printf("the next run continues from the position in Kafka topic %s, %s\n", at.Topic, p.db.named(at.Last.Progress.Position))
	} else {
		p.printf("%s\n", p.db.atReset())
	}
}

// Settle stores with the position that no row is pending from before it, of the tables of which that is so: but for rows that meet the
// condition published, which were. Where a relay runs it does nothing, and says so of those.
func (p *Positions) Settle(ctx context.Context, published string) error {
	in, err := p.db.inspect(ctx, p.places.Resume)
	if err != nil || in.LoadErr != nil || in.Refused != nil {
		return err
	}
	if runs := p.db.idle(ctx); runs != nil {
		if published != "" {
			p.printf("write_back: the rows that were published stay pending (%s): mark those by hand\n", runs)
		}
		return nil
	}
	c := in.Checkpoint
	if !in.Found {
		c = checkpoint.Moved(c, in.Source, in.From, false)
	}
	if c.Progress.Part.Rows > 0 { // to store it would repeat them; the relay settles
		return nil
	}
	settled := strings.Fields(c.Settled)
	load := func(context.Context) (cdc.Checkpoint, bool, error) { return c, true, nil }
	err = p.db.Rows(p.dsn, p.db.Marks(published)).Each(ctx, load, func(t cleanup.Rows) error {
		condition := t.Action().Condition
		if slices.Contains(settled, condition) {
			return nil
		}
		if err := t.Verify(ctx); err != nil {
			if _, lasts := errors.AsType[*cdc.FixableError](err); !lasts { // such as a lock: nothing would tell that the rows are not settled
				return err
			}
			p.printf("write_back: %s\n", cdc.Explain(err)) // check reports it, too
			return nil
		}
		pending, _, err := t.Due(ctx, 1)
		if err != nil {
			return err
		}
		if len(pending) > 0 {
			p.printf("table %s: has rows that are pending, that of event %s among them: nothing tells whether they were published, so write_back leaves them as they are until somebody sets their status; before the first run setup --backfill --where publishes them\n", t.Name(), pending[0].ID)
			return nil
		}
		settled = append(settled, condition)
		return nil
	})
	if err != nil {
		return err
	}
	if text := strings.Join(settled, " "); text != c.Settled {
		c.Settled = text
		return p.places.Set(ctx, c)
	}
	return nil
}
