package inspect

import (
	"context"
	"log/slog"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/record"
	"github.com/cdc-relay/cdc-relay/internal/relay"
)

// FromSource calls show with what run would publish from now on. It leaves nothing in the database and does not use the relay's slot or
// checkpoint.
func FromSource(ctx context.Context, c *config.Config, log *slog.Logger, show func(*Record) error) error {
	reg := prometheus.NewRegistry()
	db := app.NewDatabase(c)
	router := app.Router(c, db.Tables())
	src := db.NewSource(app.SourceOptions{Verify: router.Check, Dry: true}, log, reg)
	s := relay.Stages{Source: src, Router: router, Checkpointer: checkpoint.None{}, Sink: newSink(newPrinter(c), show)}
	options := app.RelayOptions(c, db, func(string) {})
	options.LeftOut = func(table string, rows int) {
		log.Info("left out by tables[].only", cdc.Repeats(), slog.String("table", table), slog.Int("rows", rows))
	}
	return relay.New(options, s, log, reg).Run(ctx)
}

// Record is a record of Kafka, as it is shown.
type Record struct {
	Topic string `json:"topic"`
	// Partition is that of the record in Kafka, or the one that its route names; nil leaves it to the key.
	Partition *int32            `json:"partition,omitempty"`
	Key       *string           `json:"key"`
	Headers   map[string]string `json:"headers"`
	// Value is the payload as text; ValueBase64 is a payload that is not UTF-8. Both are absent for a tombstone.
	Value       *string `json:"value,omitempty"`
	ValueBase64 []byte  `json:"value_base64,omitempty"`
	// About is what it says of its event.
	About record.Attributes `json:"-"`
}

// printer makes records to show.
type printer struct {
	plain []record.Names
	noID  []string // tables whose records do not say which event they are of
}

func newPrinter(c *config.Config) printer {
	var p printer
	for i := range c.Tables {
		layout, _ := outbox.Mapped(c.Tables[i].Columns.Parts()) // checked before
		shape := c.Tables[i].Shape()
		names, plain := shape.Names(layout)
		if plain && names.ID == "" {
			p.noID = append(p.noID, c.Tables[i].Name)
		} else if plain {
			p.plain = append(p.plain, names)
		}
	}
	return p
}

func (p printer) record(m *cdc.Message) Record {
	rec := Record{Topic: m.Topic, Headers: map[string]string{}}
	if m.Partition > 0 {
		partition := m.Partition - 1
		rec.Partition = &partition
	}
	if m.Key != nil {
		key := string(m.Key)
		rec.Key = &key
	}
	for _, h := range m.Headers {
		rec.Headers[string(h.Key)] = string(h.Value)
	}
	if utf8.Valid(m.Value) && m.Value != nil {
		value := string(m.Value)
		rec.Value = &value
	} else {
		rec.ValueBase64 = m.Value
	}
	rec.About = record.Read(rec.Headers, m.Value, p.plain)
	return rec
}

// sink is a sink that shows each record and publishes nothing.
type sink struct {
	printer printer
	show    func(*Record) error
	durable chan cdc.Durable
}

func newSink(p printer, show func(*Record) error) *sink {
	return &sink{p, show, make(chan cdc.Durable, 1)}
}

// Send implements [relay.Sink].
func (s *sink) Send(ctx context.Context, r *cdc.Routed) error {
	for i := range r.Messages {
		rec := s.printer.record(&r.Messages[i])
		if err := s.show(&rec); err != nil {
			return err
		}
	}
	select {
	case s.durable <- cdc.Durable{First: r.Seq(), Last: r.Seq()}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *sink) Durable() <-chan cdc.Durable { return s.durable }

func (s *sink) Open(context.Context, string, ...string) error { return nil }

func (s *sink) Kill() {}

func (s *sink) Reset() {}

func (s *sink) Fenced(context.Context) bool { return false }
