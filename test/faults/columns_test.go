package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// statements splits SQL and replaces each % by a name.
func statements(sql, name string) []string {
	return strings.Split(strings.ReplaceAll(sql, "%", name), "; ")
}

// Columns added, dropped or renamed under load are mapped by name.
//
//covers:postgres 15 events
func TestAlteredTable(t *testing.T) {
	t.Parallel()
	db := newPostgres(t)
	r := newRig(t, db, cdctest.SlotOnly, nil)
	r.Start()
	r.Load(cdctest.Workload{})
	for _, sql := range []string{
		"ALTER TABLE outbox ADD COLUMN region text DEFAULT 'eu'",
		"ALTER TABLE outbox ADD COLUMN price numeric DEFAULT 1.5", // a type that is read as text
		"ALTER TABLE outbox DROP COLUMN schema_version",
		"ALTER TABLE outbox DROP COLUMN tenant_id",
		"ALTER TABLE outbox RENAME COLUMN schema_id TO schema_name",
		"ALTER TABLE outbox DROP COLUMN price",
	} {
		r.AwaitProgress(300)
		r.Must(db.Exec(r.Within(time.Minute), sql))
	}
	r.AwaitProgress(300)
	r.Verify()
}

// A required column is renamed: the relay publishes the events before, stops before the first row without the column and
// names it. Once the configuration has the new name, it continues without a gap.
//
//covers:postgres 15 exit events both
func TestMissingColumn(t *testing.T) {
	t.Parallel()
	for _, d := range deliveries() {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			missingColumn(t, d)
		})
	}
}

func missingColumn(t *testing.T, delivery cdctest.Delivery) {
	t.Helper()
	db := newPostgres(t)
	r := newRig(t, db, cdctest.InFile, func(o *cdctest.RigOptions) { o.Delivery = delivery })
	r.Start()
	before := r.Append("k", 10)
	r.AwaitSaved(before)
	db.PayloadColumn = "body"
	r.Must(db.Exec(t.Context(), "ALTER TABLE outbox RENAME COLUMN payload TO body"))
	r.Must(db.InsertMany(t.Context(), "x", 10, 10))
	says(t, r.AwaitExit(time.Minute, 2), "payload", "public.outbox")
	r.Must(r.Reader.CatchUp(r.Within(time.Minute)))
	records, _ := r.Reader.Count()
	if records != len(before) {
		t.Errorf("%d records, want the %d before the change", records, len(before))
	}
	r.Reconfigure("tables", []any{map[string]any{"name": "public.outbox", "columns": map[string]any{
		"event_id": "event_id", "aggregate_type": "aggregate_type", "aggregate_id": "aggregate_id", "event_type": "event_type",
		"content_type": "content_type", "headers": "headers", "payload": "body", "occurred_at": "occurred_at",
	}}})
	r.Start()
	r.Verify()
}

// A required column is dropped while the relay is disconnected or stopped. Events committed before are published; the first
// row without the column stops the relay at every start.
//
//covers:postgres 15 exit arrivals
func TestColumnDroppedWhileDisconnected(t *testing.T) {
	t.Parallel()
	for name, down := range map[string]bool{"cut off": false, "down": true} {
		t.Run(name, func(t *testing.T) {
			db := newPostgres(t)
			db.Proxy = testenv.Proxy(t, shared.postgres.Addr())
			r := newRig(t, db, cdctest.InFile, nil)
			r.Start()
			r.AwaitSaved(r.Append("k", 10))
			db.Proxy.Cut()
			if down {
				r.Kill()
			}
			before := r.Append("k", 10)
			r.Must(db.Exec(t.Context(), "ALTER TABLE outbox RENAME COLUMN payload TO body"))
			db.PayloadColumn = "body"
			r.Must(db.InsertMany(t.Context(), "x", 10, 10))
			r.Must(db.Proxy.Restore())
			if down {
				r.Must(r.Relay.Start(t.Context()))
			}
			says(t, r.AwaitExit(time.Minute, 2), "payload", "public.outbox")
			r.AwaitEvents(before)
			r.Must(r.Relay.Start(t.Context()))
			says(t, r.AwaitExit(time.Minute, 2), "payload", "public.outbox")
		})
	}
}
