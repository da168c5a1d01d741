// Package inboxtest is for tests of handlers and consumers, without a relay:
//
//	m := inboxtest.Message(event) // as the relay sends it
//	err := inboxtest.Handle(t, in, handlers.Handle, m, func(tx *sql.Tx) {
//		// look at what the handler did; it is rolled back
//	})
//
// With a consumer that runs, publish m.Key, m.Value and m.Headers, and [Await] it.
package inboxtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/parking"
	"github.com/cdc-relay/cdc-relay/writer"
)

// Source is the source of messages, as that of a relay with the database test.
const Source = "/test/public.outbox"

// Message returns the message that a relay with default settings makes of an event, without ce_sequence and ce_committime. An ID or time that the event lacks is set in the
// message only. Topic is the event's, and partition and offset are 0: set them if your handler looks at them.
func Message(e *writer.Event) *inbox.Message {
	m := &inbox.Message{Topic: e.Topic, Key: []byte(cmp.Or(e.PartitionKey, e.AggregateID)), Value: e.Payload}
	if e.Tombstone {
		m.Value = nil
	}
	id, at, version := e.ID, e.OccurredAt, ""
	if id == [16]byte{} {
		_, _ = rand.Read(id[:])
	}
	if at.IsZero() {
		at = time.Now()
	}
	if e.SchemaVersion != 0 {
		version = strconv.Itoa(e.SchemaVersion)
	}
	for _, h := range [][2]string{
		{"ce_id", id.String()},
		{"ce_specversion", "1.0"},
		{"ce_source", Source},
		{"ce_type", e.Type},
		{"ce_subject", e.AggregateID},
		{"ce_time", at.UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano)},
		{"content-type", cmp.Or(e.ContentType, "application/json")},
		{"ce_aggregatetype", e.AggregateType},
		{"ce_tenant", e.TenantID},
		{"ce_dataschema", e.SchemaID},
		{"ce_dataschemaversion", version},
	} {
		if h[1] != "" {
			m.Headers = append(m.Headers, inbox.Header{Key: h[0], Value: []byte(h[1])})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(e.Headers)) {
		m.Headers = append(m.Headers, inbox.Header{Key: key, Value: []byte(e.Headers[key])})
	}
	_ = m.ReadCloudEvents() // each of these headers is there once
	return m
}

// Handle calls a handler in a transaction, appends the events that it raised, calls check, which may be nil, and rolls back. It returns the
// error of the handler or of the append; then check was not called.
func Handle[Tx any](tb testing.TB, in *inbox.Inbox[Tx], h inbox.Handler[Tx], m *inbox.Message, check func(tx Tx)) (err error) {
	tb.Helper()
	ctx, db, u := tb.Context(), in.DB(), in.Writer().NewUnit()
	tx, err := db.Begin(ctx)
	if err != nil {
		tb.Fatalf("begin a transaction: %v", err)
	}
	defer func() { // also if check ends the test
		if failed := db.Rollback(context.WithoutCancel(ctx), tx); failed != nil && err == nil {
			tb.Errorf("roll back: %v", failed)
		}
		u.End(ctx, errRolledBack)
	}()
	m.Attempt = max(m.Attempt, 1)
	if err := h(ctx, tx, u, m); err != nil {
		return err
	}
	if err := in.Writer().Flush(ctx, writer.TxOf(db, tx), u); err != nil || check == nil {
		return err
	}
	check(tx)
	return nil
}

var errRolledBack = errors.New("the test rolls back")

// patience is how long Await waits.
const patience = 30 * time.Second

var errNew = errors.New("not recorded")

// Await waits until the inbox has the message, so until its effect is committed, and ends the test if that takes more than 30 s or the
// message is parked. The options are those of the consumer's parking.
func Await[Tx any](tb testing.TB, in *inbox.Inbox[Tx], m *inbox.Message, opts ...parking.Option) {
	tb.Helper()
	parked, err := parking.New(in, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	id, err := in.Identify(m)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		err := inbox.Transact(ctx, in.DB(), func(ctx context.Context, tx Tx) error {
			if first, err := in.Once(ctx, tx, m); err != nil || !first {
				return err
			}
			return errNew // rolls back
		})
		if err == nil {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tb.Fatalf("message %s of %s was not handled within %v: %v", id.ID, id.Source, patience, err)
		}
	}
	for row, err := range parked.List(ctx, parking.Filter{IDs: []inbox.MessageID{id}}) {
		if err != nil {
			tb.Fatal(err)
		}
		tb.Fatalf("message %s of %s is parked: %s", id.ID, id.Source, cmp.Or(row.Error, "waits for another one of its key"))
	}
}
