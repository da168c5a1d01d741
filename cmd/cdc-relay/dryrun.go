package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/relay"
	"github.com/cdc-relay/cdc-relay/internal/source"
	"github.com/cdc-relay/cdc-relay/internal/stages"
)

// dryRun prints what run would publish from now on.
func dryRun(ctx context.Context, c *config.Config, out io.Writer, log *slog.Logger) error {
	log.Info("dry run: printing records of new commits, publishing nothing")
	return readSource(ctx, c, &printer{out: json.NewEncoder(out), durable: make(chan cdc.Durable, 1)}, log)
}

// readSource passes what run would publish from now on to sink. It leaves nothing in the database and does not use the
// relay's slot or checkpoint.
func readSource(ctx context.Context, c *config.Config, sink relay.Sink, log *slog.Logger) error {
	reg := prometheus.NewRegistry()
	db, err := source.New(c)
	if err != nil {
		return err
	}
	router, err := stages.Router(c, db.Tables())
	if err != nil {
		return err
	}
	src, err := db.NewSource(source.Options{Verify: router.Check, Dry: true}, log, reg)
	if err != nil {
		return err
	}
	s := relay.Stages{Source: src, Router: router, Checkpointer: checkpoint.None{}, Sink: sink}
	return relay.New(relayOptions(c, newDropped(reg)), s, log, reg).Run(ctx)
}

// printer is a sink that prints each record as a line of JSON.
type printer struct {
	out     *json.Encoder
	durable chan cdc.Durable
}

type printedRecord struct {
	Topic   string            `json:"topic"`
	Key     *string           `json:"key"`
	Headers map[string]string `json:"headers"`
	// Value is the payload as text; ValueBase64 is a payload that is not UTF-8. Both are absent for a tombstone.
	Value       *string `json:"value,omitempty"`
	ValueBase64 []byte  `json:"value_base64,omitempty"`
}

func (p *printer) Open(context.Context, string, ...string) error { return nil }

func (p *printer) Send(ctx context.Context, r *cdc.Routed) error {
	for i := range r.Messages {
		if err := p.out.Encode(printed(&r.Messages[i])); err != nil {
			return fmt.Errorf("print record: %w", err)
		}
	}
	select {
	case p.durable <- cdc.Durable{First: r.Seq(), Last: r.Seq()}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func printed(m *cdc.Message) printedRecord {
	rec := printedRecord{Topic: m.Topic, Headers: map[string]string{}}
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
	return rec
}

func (p *printer) Durable() <-chan cdc.Durable { return p.durable }

func (p *printer) Kill() {}

func (p *printer) Reset() {}

func (p *printer) Fenced(context.Context) bool { return false }
