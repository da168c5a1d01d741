package router_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/router"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// row holds raw values by column; a column that is not there is NULL.
type row map[string]string

// with returns a copy of r with a column changed.
func (r row) with(column, raw string) row {
	c := r.without(column)
	c[column] = raw
	return c
}

// without returns a copy of r with NULL in the columns.
func (r row) without(columns ...string) row {
	c := maps.Clone(r)
	for _, column := range columns {
		delete(c, column)
	}
	return c
}

const (
	eventID   = "0198c0de-0000-7000-8000-00000000002a"
	headers   = `{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}`
	commitLSN = 0x16B3748
	commitAt  = 1767323046500000 // 2026-01-02T03:04:06.5Z
)

// order is a row of the native table with every column set.
func order() row {
	return row{
		"event_id": eventID, "aggregate_type": "Order", "aggregate_id": "42", "event_type": "order.placed",
		"tenant_id": "acme", "topic": "orders", "partition_key": "k1", "content_type": "application/json",
		"schema_id": "urn:order", "schema_version": "3", "headers": headers, "payload": `{"total": 1}`,
		"occurred_at": "2026-01-02 03:04:05.6+00", "created_at": "2026-01-02 03:04:05+00",
	}
}

// native is the schema of the native table as a source that reads text describes it.
func native() *cdc.Table {
	t := &cdc.Table{Schema: "public", Name: "outbox"}
	for name := range strings.FieldsSeq("event_id aggregate_type aggregate_id event_type tenant_id topic partition_key " +
		"content_type schema_id schema_version headers payload occurred_at created_at") {
		t.Columns = append(t.Columns, cdc.Column{Name: name})
	}
	setForm(t, "occurred_at", cdc.FormTimestampText)
	setForm(t, "created_at", cdc.FormTimestampText)
	return t
}

func setForm(t *cdc.Table, column string, f cdc.Form) { t.Columns[t.Index(column)].Form = f }

// batch puts rows of one transaction into a batch.
func batch(t *cdc.Table, rows ...row) *cdc.Batch {
	b := &cdc.Batch{Seq: 1, Table: t, Txs: []cdc.Tx{{Commit: commitLSN, Time: commitAt}}}
	for _, r := range rows {
		for _, c := range t.Columns {
			raw, ok := r[c.Name]
			if !ok {
				b.Spans = append(b.Spans, cdc.Span{Len: -1})
				continue
			}
			b.Spans = append(b.Spans, cdc.Span{Off: int32(len(b.Arena)), Len: int32(len(raw))})
			b.Arena = append(b.Arena, raw...)
		}
	}
	return b
}

// options are the least that a router of the native table takes.
func options() router.Options {
	return router.Options{
		Tables: []router.Table{{Name: outbox.Name{Schema: "public", Table: "outbox"}, Source: "/shop/outbox"}},
		Routes: []router.Route{{Match: map[string]string{"aggregate_type": ".*"}, Topic: "outbox.event.${aggregate_type}"}},
	}
}

// mapped is the layout of a table with these columns, by the names of their roles.
func mapped(tb testing.TB, columns map[string]string) outbox.Layout {
	tb.Helper()
	parts := map[string]outbox.Part{}
	for role, column := range columns {
		parts[role] = outbox.Of(column)
	}
	layout, err := outbox.Mapped(parts)
	testenv.Must(tb, err)
	return layout
}

func newRouter(tb testing.TB, o router.Options) *router.Router {
	tb.Helper()
	return router.New(o)
}

// route routes a batch and returns what came of it.
func route(tb testing.TB, o router.Options, b *cdc.Batch) (*cdc.Routed, error) {
	tb.Helper()
	dst := &cdc.Routed{}
	dst.Reset(b)
	return dst, newRouter(tb, o).Route(b, dst)
}

// routeInto routes a batch that must not stop the relay.
func routeInto(tb rapid.TB, r *router.Router, b *cdc.Batch, dst *cdc.Routed) {
	tb.Helper()
	dst.Reset(b)
	testenv.Must(tb, r.Route(b, dst))
}

// one routes a single row that must make a message.
func one(tb testing.TB, o router.Options, t *cdc.Table, r row) *cdc.Message {
	tb.Helper()
	dst, err := route(tb, o, batch(t, r))
	if err != nil {
		tb.Fatalf("Route: %v", err)
	}
	if len(dst.Messages) != 1 {
		tb.Fatalf("%d messages, drops %+v", len(dst.Messages), dst.Drops)
	}
	return &dst.Messages[0]
}

// header returns a header's value, and false when there is none.
func header(m *cdc.Message, name string) (string, bool) {
	for _, h := range m.Headers {
		if string(h.Key) == name {
			return string(h.Value), true
		}
	}
	return "", false
}

// golden writes a message the way golden records stand in tests.
func golden(m *cdc.Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "topic %s\nkey %s\nvalue %s\n", m.Topic, quoted(m.Key), quoted(m.Value))
	if m.Partition > 0 {
		fmt.Fprintf(&b, "partition %d\n", m.Partition-1)
	}
	for _, h := range m.Headers {
		fmt.Fprintf(&b, "%s: %s\n", h.Key, quoted(h.Value))
	}
	return b.String()
}

func quoted(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%q", b)
}

// stopped checks that err stops the relay with the reason and says what it must, and returns its text.
func stopped(tb testing.TB, err error, class cdc.Class, reason string, says ...string) string {
	tb.Helper()
	var stop *cdc.StopError
	if !errors.As(err, &stop) {
		tb.Fatalf("not a stop: %v", err)
	}
	if stop.Class != class || stop.Reason != reason {
		tb.Errorf("class %d reason %q, want %d %q", stop.Class, stop.Reason, class, reason)
	}
	for _, s := range says {
		if !strings.Contains(cdc.Explain(err), s) {
			tb.Errorf("%q does not say %q", err, s)
		}
	}
	return cdc.Explain(err)
}

// micros encodes Unix microseconds as PostgreSQL's binary timestamptz.
func micros(unix int64) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(unix-946684800000000)))
}

// binaryTable is the native table as a source that reads binary describes it.
func binaryTable() *cdc.Table {
	t := native()
	setForm(t, "event_id", cdc.FormUUID)
	setForm(t, "schema_version", cdc.FormInt)
	setForm(t, "headers", cdc.FormJSONB)
	setForm(t, "payload", cdc.FormBytes)
	setForm(t, "occurred_at", cdc.FormMicros2000)
	setForm(t, "created_at", cdc.FormMicros2000)
	return t
}

// binaryRow is an order's row as binaryTable holds it.
func binaryRow(r row) row {
	id := "\x01\x98\xc0\xde\x00\x00\x70\x00\x80\x00\x00\x00\x00\x00\x00\x2a"
	at := string(binary.BigEndian.AppendUint64(nil, 1767323045600000-946684800000000))
	b := r.with("event_id", id).with("occurred_at", at).with("created_at", at)
	if _, ok := r["headers"]; ok {
		b["headers"] = "\x01" + r["headers"]
	}
	if _, ok := r["schema_version"]; ok {
		b["schema_version"] = "\x00\x00\x00\x03"
	}
	return b
}
