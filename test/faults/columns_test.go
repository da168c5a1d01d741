package faults

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// statements splits SQL and replaces each % by a name.
func statements(sql, name string) []string {
	return strings.Split(strings.ReplaceAll(sql, "%", name), "; ")
}

// Columns added, dropped or renamed under load are mapped by name.
//
//covers:all 15 events
func TestAlteredTable(t *testing.T) {
	onEach(t, func(t *testing.T, s source) {
		r := newRig(t, s.open(t), s.least(), nil)
		r.Start()
		r.Load(cdctest.Workload{})
		price := "ALTER TABLE outbox ADD COLUMN price DECIMAL(10, 2) DEFAULT 1.5" // PostgreSQL reads it as text
		if s.name != "postgres" {
			price += " AFTER event_type" // in the middle of the row
		}
		for _, sql := range []string{
			"ALTER TABLE outbox ADD COLUMN region VARCHAR(20) DEFAULT 'eu'",
			price,
			"ALTER TABLE outbox DROP COLUMN schema_version",
			"ALTER TABLE outbox DROP COLUMN tenant_id",
			"ALTER TABLE outbox RENAME COLUMN schema_id TO schema_name",
			"ALTER TABLE outbox DROP COLUMN price",
		} {
			r.AwaitProgress(300)
			alter(r, sql)
		}
		r.AwaitProgress(300)
		r.Verify()
	})
}

// alter retries on MySQL and MariaDB after a short lock timeout. ALTER waits for transactions that have written to the table, and new ones
// wait for ALTER; if one of the former waits for a row that one of the latter has locked, none can proceed.
func alter(r *cdctest.Rig, sql string) {
	db, ok := r.DB.(*cdctest.MySQL)
	if !ok {
		executes(r, sql)
		return
	}
	r.Await(sql, func(ctx context.Context) (bool, error) {
		err := db.Server.Exec(ctx, db.Name(), "SET SESSION lock_wait_timeout = 1; "+sql)
		if code, ok := errors.AsType[*mysql.MySQLError](err); ok && code.Number == erLockWaitTimeout {
			return false, nil
		}
		return err == nil, err
	})
}

// erLockWaitTimeout is ER_LOCK_WAIT_TIMEOUT of both servers.
const erLockWaitTimeout = 1205

// renamePayload renames the column of the payload.
func renamePayload(r *cdctest.Rig) {
	executes(r, "ALTER TABLE outbox RENAME COLUMN payload TO body")
	switch db := r.DB.(type) {
	case *cdctest.Postgres:
		db.PayloadColumn = "body"
	case *cdctest.MySQL:
		db.PayloadColumn = "body"
	}
}

// renamed maps the payload to the column body.
func renamed(r *cdctest.Rig) {
	r.Reconfigure("tables", []any{map[string]any{"name": r.DB.Table().String(), "columns": map[string]any{
		"event_id": "event_id", "aggregate_type": "aggregate_type", "aggregate_id": "aggregate_id", "event_type": "event_type",
		"content_type": "content_type", "headers": "headers", "payload": "body", "occurred_at": "occurred_at",
	}}})
}

// executes runs a statement in the rig's database.
func executes(r *cdctest.Rig, sql string) {
	r.Must(r.DB.Exec(r.Within(time.Minute), sql))
}

// A required column is dropped, rows are written, and it is added again. While the table lacks it, the relay stops before the first row
// and names the column. Afterwards these rows are malformed: the relay stops and names the event, goes past it with errors.skip, and makes
// dead letters of such rows, which no retry publishes, until the table lacks the column once more.
//
//covers:postgres 15 27 exit events both
//covers:mysql 15 27 exit events
//covers:mariadb 15 27 exit events exactly-once
func TestColumnDroppedAndAddedAgain(t *testing.T) {
	inEitherMode(t, func(t *testing.T, s source, delivery func(*cdctest.RigOptions)) {
		r := letterRig(t, s, delivery)
		r.Reconfigure("errors.malformed", "stop")
		add := "ALTER TABLE outbox ADD COLUMN partition_key text"
		drop := func() { executes(r, "ALTER TABLE outbox DROP COLUMN partition_key") }
		lacks := func() cdctest.Exit {
			exit := r.AwaitExit(time.Minute, 2)
			says(t, exit, "column partition_key of", "add it to the table")
			return exit
		}
		r.Start()
		r.AwaitSaved(r.Append("k", 5))
		drop()
		bad := r.Append("k", 1)[0]
		lacks()
		r.Must(r.Relay.Start(t.Context()))
		lacks()
		executes(r, add)
		r.Must(r.Relay.Start(t.Context()))
		exit := r.AwaitExit(time.Minute, 1)
		says(t, exit, bad.ID.String(), "it was logged without column partition_key, which the table has now", "errors.malformed: dead_letter")
		r.Reconfigure("errors.skip", skipped(r, exit, bad))
		r.Exclude(bad)
		r.Start()
		r.AwaitSaved(r.Append("k", 5))
		sigterm(r)
		r.Reconfigure("errors.malformed", "dead_letter")
		drop()
		r.Exclude(r.Append("k", 2)...)
		executes(r, add)
		r.Start()
		awaitCounts(r, "map[malformed:2]")
		if out, err := r.Relay.Command(r.Within(time.Minute), "dlq", "retry", "--all", "--yes"); err == nil {
			t.Errorf("published without the column: %s", out)
		}
		wantCounts(r, "map[malformed:2]", cdctest.Lost)
		drop()
		r.Exclude(r.Append("other", 1)...)
		lacks()
		executes(r, add)
		r.Start()
		awaitCounts(r, "map[malformed:3]")
		_, err := r.Relay.Command(r.Within(time.Minute), "dlq", "drop", "--all", "--yes")
		r.Must(err)
		r.AwaitEvents(r.Append("k", 5))
		r.Verify()
	})
}

// A required column is renamed while rows from before are unread, and the configuration has the new name: no policy applies to these rows,
// which have the value under the old name. What the message says publishes all of them.
//
//covers:all 15 exit events
func TestRenamedColumnOfUnreadRows(t *testing.T) {
	onEach(t, func(t *testing.T, s source) {
		r := newRig(t, s.open(t), cdctest.InFile, nil)
		r.Reconfigure("errors.malformed", "drop")
		before := r.Config["tables"]
		r.Start()
		r.AwaitSaved(r.Append("k", 5))
		sigterm(r)
		r.Append("k", 5)
		renamePayload(r)
		r.Must(r.DB.InsertMany(t.Context(), "x", 10, 10))
		renamed(r)
		if said := refuses(t, r, 2); !strings.Contains(said, "if payload was renamed, rename it back, run the relay with its former configuration") {
			t.Errorf("it does not say so: %s", said)
		}
		executes(r, "ALTER TABLE outbox RENAME COLUMN body TO payload")
		r.Reconfigure("tables", before)
		if said := refuses(t, r, 2); !strings.Contains(said, "no column payload, but body, which it does not have now") {
			t.Errorf("it does not stop at the new name: %s", said)
		}
		executes(r, "ALTER TABLE outbox RENAME COLUMN payload TO body")
		renamed(r)
		r.Start()
		r.Verify()
	})
}

// A route reads a column of a type that only the database can print, after a row with it became a dead letter. No retry publishes the letter;
// what the message says publishes the event.
//
//covers:postgres 34 events both
func TestLetterWithoutAPrintedColumn(t *testing.T) {
	t.Parallel()
	eachDelivery(t, func(t *testing.T, d cdctest.Delivery) {
		t.Parallel()
		r := letterRig(t, postgres(), func(o *cdctest.RigOptions) { o.Delivery = d })
		executes(r, "ALTER TABLE outbox ADD COLUMN amount numeric NOT NULL DEFAULT 1.5")
		r.Start()
		r.AwaitEvents(r.Append("k", 5))
		bad := r.AppendAs("k", 1, stray)[0]
		awaitCounts(r, "map[unroutable:1]")
		sigterm(r)
		r.Reconfigure("routes", []any{map[string]any{"match": map[string]any{"amount": ".+"}, "topic": r.Topic}})
		r.Start()
		if out, err := r.Relay.Command(r.Within(time.Minute), "dlq", "retry", bad.ID.String()); err == nil {
			t.Fatalf("published without the column: %s", out)
		}
		_, said, ok := strings.Cut(r.Relay.Log(), "column amount of public.outbox is in a binary form that the relay does not know")
		if !ok {
			t.Fatal("the log does not say so")
		}
		follow(t, r, said, "replay", "ID", bad.ID.String())
		r.AwaitEvents([]*cdctest.Event{bad})
		follow(t, r, said, "dlq drop", "ID", bad.ID.String())
		awaitCounts(r, "map[]")
		r.AwaitEvents(r.Append("k", 5))
		r.Verify()
	})
}

// The table is altered while the relay that knew it is cut off. What it learns after that stops it, at every start.
//
//covers:postgres 15 exit arrivals
func TestColumnDroppedWhileDisconnected(t *testing.T) {
	t.Parallel()
	db := newPostgres(t)
	db.ThroughProxy(t)
	r := newRig(t, db, cdctest.InFile, nil)
	r.Start()
	r.AwaitSaved(r.Append("k", 10))
	db.Proxy.Cut()
	before := r.Append("k", 10)
	renamePayload(r)
	r.Must(db.InsertMany(t.Context(), "x", 10, 10))
	r.Must(db.Proxy.Restore())
	says(t, r.AwaitExit(time.Minute, 2), "payload", "public.outbox")
	r.AwaitEvents(before)
	r.Must(r.Relay.Start(t.Context()))
	says(t, r.AwaitExit(time.Minute, 2), "payload", "public.outbox")
}
