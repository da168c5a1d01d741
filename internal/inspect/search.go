package inspect

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/router"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
)

// Found is what is known of an event.
type Found struct {
	ID      string        `json:"id"`
	Rows    []FoundRow    `json:"rows"`
	Records []FoundRecord `json:"records"`
	// NoID are tables whose records do not say which event they are of.
	NoID []string `json:"tables_without_id_in_records,omitempty"`
	// Searched are the topics that were searched, and Since from when on; zero: everything that they have.
	Searched []string  `json:"searched"`
	Since    time.Time `json:"since,omitzero"`
	// Letters are those in the dead letters; DeadLetters is false where there can be none.
	Letters     []deadletter.Listed `json:"letters"`
	DeadLetters bool                `json:"dead_letters"`
	// Timeline is all of this in the order in which it happened.
	Timeline []Moment `json:"timeline"`
}

// FoundRow is a row of an event.
type FoundRow struct {
	Table string `json:"table"`
	// Created is zero if it is no time of the years 1 to 9999.
	Created time.Time `json:"created_at,omitzero"`
	// Topic, Partition (nil: that of the key) and Key (nil: none) are where the row is routed now, or Refused why it is not.
	Topic     string  `json:"topic,omitempty"`
	Partition *int32  `json:"partition,omitempty"`
	Key       *string `json:"key,omitempty"`
	Refused   string  `json:"refused,omitempty"`
}

// FoundRecord is a record of an event.
type FoundRecord struct {
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Time      time.Time `json:"time"`
	Replayed  bool      `json:"replayed,omitempty"`
}

func (r *FoundRecord) place() string {
	return fmt.Sprintf("%s, partition %d, offset %d", r.Topic, r.Partition, r.Offset)
}

// search looks for an event.
type search struct {
	config  *config.Config
	printer printer
	found   Found
	values  []string // of the columns with the ID, in tables whose events can have it
}

// Search says what became of an event. owner is the connection string of the tables' owner; "": the relay's own is used. It reads only.
func Search(ctx context.Context, c *config.Config, owner, id string) (*Found, error) {
	s := &search{config: c, printer: newPrinter(c), found: Found{
		ID: id, Rows: []FoundRow{}, Records: []FoundRecord{}, Letters: []deadletter.Listed{},
	}}
	s.found.NoID = s.printer.noID
	if err := s.run(ctx, owner); err != nil {
		return nil, err
	}
	s.found.Timeline = s.found.timeline()
	return &s.found, nil
}

func (s *search) run(ctx context.Context, owner string) error {
	db := app.NewDatabase(s.config)
	dsn, err := app.OwnerConnString(ctx, s.config, owner)
	if err != nil {
		return err
	}
	if err := s.rows(ctx, db, dsn); err != nil {
		return err
	}
	if err := s.records(ctx); err != nil {
		return err
	}
	if s.config.DeadLetter.On() {
		s.found.DeadLetters = true
		letters, _, err := app.LetterDesk(s.config).List(ctx, deadletter.Filter{IDs: []string{s.found.ID}})
		if err != nil {
			return err
		}
		s.found.Letters = append(s.found.Letters, letters...)
	}
	return nil
}

// rows looks into the tables whose events can have the ID; it returns an error if there are none.
func (s *search) rows(ctx context.Context, db app.Database, dsn app.ConnString) error {
	router := app.Router(s.config, db.Tables())
	tables := db.Tables()
	var refused error
	for i := range tables {
		reader, err := db.Reader(ctx, dsn, &tables[i])
		if err != nil {
			return err
		}
		err = tableread.Fetch(ctx, reader, s.found.ID, func(b *cdc.Batch) error {
			for row := range b.Txs {
				found := FoundRow{Table: tables[i].Name.String()}
				if at := b.Txs[row].Time; at != 0 {
					found.Created = time.UnixMicro(at).UTC()
				}
				s.found.Rows = append(s.found.Rows, found)
			}
			s.route(router, i, b)
			return nil
		})
		reader.Close(ctx)
		switch {
		case cdc.ReasonOf(err) == tableread.ReasonNotAnID:
			refused = err
		case err != nil:
			return err
		default:
			s.values = append(s.values, strings.TrimPrefix(s.found.ID, tables[i].Layout.IDPrefix()))
		}
	}
	if s.values == nil {
		return refused
	}
	return nil
}

// route says where the last row, of the table with that index, goes now. Rows of one event are alike: an ID that is used twice is an error of who writes it.
func (s *search) route(router *router.Router, table int, b *cdc.Batch) {
	last := &s.found.Rows[len(s.found.Rows)-1]
	routed := new(cdc.Routed)
	routed.Reset(b)
	err := router.Route(b, routed)
	switch {
	case err != nil:
		last.Refused = err.Error()
	case len(routed.Messages) > 0:
		rec := s.printer.record(&routed.Messages[len(routed.Messages)-1])
		last.Topic, last.Partition, last.Key = rec.Topic, rec.Partition, rec.Key
	case routed.LeftOut > 0:
		last.Refused = leftOut(table)
	default:
		last.Refused = "left out by the configuration (errors.skip, or a policy drop)"
	}
}

// records looks into Kafka.
func (s *search) records(ctx context.Context) (err error) {
	s.found.Since = s.since()
	s.found.Searched, err = readTopics(ctx, s.config, s.found.Since, s.mayHave, func(topic string, r *kafka.Record) error {
		rec := s.printer.record(&cdc.Message{Headers: r.Headers, Value: r.Value})
		if rec.About.ID == s.found.ID {
			s.found.Records = append(s.found.Records, FoundRecord{
				Topic: topic, Partition: r.Partition, Offset: r.Offset, Time: r.Time.UTC(),
				Replayed: rec.Headers["replayed_at"] != "",
			})
		}
		return nil
	})
	return err
}

// errEnough ends the reading of a partition.
var errEnough = errors.New("enough was found")

// readTopics reads what topics have since a time, or all of it, and returns their names.
func readTopics(ctx context.Context, c *config.Config, since time.Time, wanted func(topic string) bool, fn func(topic string, r *kafka.Record) error) (names []string, err error) {
	client := app.KafkaClient(c)
	defer client.Close()
	md, err := client.Metadata(ctx, nil)
	if err != nil {
		return nil, err
	}
	names = []string{}
	for _, topic := range md.Topics {
		if !wanted(topic.Name) {
			continue
		}
		names = append(names, topic.Name)
		for id := range int32(len(topic.Partitions)) {
			from, err := kafka.Oldest, error(nil)
			if !since.IsZero() {
				from, err = client.OffsetAt(ctx, topic.Name, id, since)
			}
			if err == nil {
				err = client.Read(ctx, topic.Name, id, from, kafka.Committed, func(r *kafka.Record) error { return fn(topic.Name, r) })
			}
			if err != nil && !errors.Is(err, errEnough) {
				return nil, err
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// mayHave reports whether a topic may have records of the event: it is that of a row, or where there are no such rows, one that a route may
// lead to.
func (s *search) mayHave(topic string) bool {
	routes := true
	for i := range s.found.Rows {
		of := s.found.Rows[i].Topic
		if of == topic {
			return true
		}
		routes = routes && of == ""
	}
	return routes && routed(s.config, topic)
}

// routed reports whether a route may lead to a topic, which is none of the relay's own.
func routed(c *config.Config, topic string) bool {
	if slices.Contains(c.OwnTopics(), topic) {
		return false
	}
	variable := regexp.MustCompile(`\\\$\\\{[^}]*\\\}`)
	for _, r := range c.Routes {
		pattern := variable.ReplaceAllString(regexp.QuoteMeta(c.EventTopic(r.Topic)), ".+")
		if ok, err := regexp.MatchString("^(?:"+pattern+")$", topic); err == nil && ok {
			return true
		}
	}
	return false
}

// clockSkew is how much older than its row a record may be, by other clocks.
const clockSkew = time.Hour

// since is when the event can have been published first; zero: not known. A row's time that is ahead of the clock, or infinite, does not
// tell, nor does such a time in the ID.
func (s *search) since() time.Time {
	var first time.Time
	for _, r := range s.found.Rows {
		if r.Created.IsZero() || r.Created.After(time.Now()) {
			return time.Time{}
		}
		if first.IsZero() || r.Created.Before(first) {
			first = r.Created
		}
	}
	if first.IsZero() {
		first = s.timeInID()
	}
	if first.IsZero() || first.After(time.Now()) {
		return time.Time{}
	}
	return first.Add(-clockSkew)
}

// timeInID is that of a UUIDv7; zero: the ID is none.
func (s *search) timeInID() time.Time {
	for _, value := range s.values {
		if id, err := uuid.Parse(value); err == nil && id.Version() == 7 {
			return time.UnixMilli(int64(binary.BigEndian.Uint64(append([]byte{0, 0}, id[:6]...))))
		}
	}
	return time.Time{}
}
