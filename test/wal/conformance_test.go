package wal

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cleanup"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/relay"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/test/conformance"
)

// conforming is a database for the tests that all databases share.
type conforming struct {
	*database

	role  string
	saved *cdc.Checkpoint // nil: only the slot has the position
}

func conform(t *testing.T) *conforming {
	t.Helper()
	d, role := keeping(t, 4)
	c := &conforming{database: d, role: role}
	d.load = func(context.Context) (cdc.Checkpoint, bool, error) {
		if c.saved == nil {
			return cdc.Checkpoint{}, false, nil
		}
		return *c.saved, true, nil
	}
	return c
}

func (c *conforming) Exec(statements ...string) {
	for _, sql := range statements {
		c.exec(sql)
	}
}

func (c *conforming) Hold(statements ...string) (end func(commit bool)) {
	tx := c.holding(strings.Join(statements, "; "))
	return func(commit bool) {
		finish := tx.Rollback
		if commit {
			finish = tx.Commit
		}
		testenv.Must(c.t, finish(c.t.Context()))
	}
}

func (c *conforming) Text(query string) string { return c.text("SELECT (" + query + ")::text") }

func (c *conforming) Ago(days int) string { return fmt.Sprintf("now() - interval '%d days'", days) }

func (c *conforming) TimeType() string { return "timestamptz" }

func (c *conforming) Rows(role string) (cleanup.Rows, error) { return c.rows(role) }

func (c *conforming) Insert(daysAgo, from, to int) {
	c.insertAt(daysAgo, from, to)
}

func (c *conforming) Numbers(table string) string {
	return c.text("SELECT coalesce(string_agg(aggregate_id, ',' ORDER BY aggregate_id::int), '') FROM " + table)
}

func (c *conforming) Partitions() cleanup.Partitions { return c.parts(c.role) }

func (c *conforming) Save(saved cdc.Checkpoint) { c.saved = &saved }

func (c *conforming) Relayed() {
	c.Exec("CREATE TABLE written ()", "DROP TABLE written") // the changes before are written by now
	c.exec("SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())", c.name)
}

func (c *conforming) Restore(table string) {
	c.exec("COMMENT ON TABLE " + table + " IS '" + c.text("SELECT obj_description($1::regclass)", table) + "'")
}

func (c *conforming) Reader() tableread.Table {
	return c.reader(postgres.ReadOptions{Table: "public.outbox", SQL: "public.outbox", Key: "event_id", At: "created_at", TakenOut: outbox.PostgresTakenOut(outboxName())})
}

func (c *conforming) ReaderOf(table string, o tableread.ReadOptions) tableread.Table {
	o.Table, o.SQL = "public."+table, "public."+table
	return c.reader(o)
}

func (c *conforming) Source() relay.Source { return c.source() }

func (c *conforming) Begin() cdc.Resumer { return none } // the slot is there

func (c *conforming) Free() { c.awaitFree() }

func (c *conforming) Cut() {
	c.exec("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = $1", c.name)
}

// A source continues exactly behind its position, in the same process and in the next.
//
//covers:postgres 18 rows both
func TestResume(t *testing.T) { conformance.Resume(t, conform(t)) }

func TestReleasedBeforeReading(t *testing.T) { conformance.ReleasedBeforeReading(t, conform(t)) }

// The relay's role makes days ahead and takes out those past the TTL. They are dropped only once the position has passed
// every event in them. The relay publishes the events of what was taken out before it read them, and goes on.
//
//covers:postgres 16 rows both
func TestPartitionIsDroppedOnceRelayed(t *testing.T) {
	conformance.PartitionIsDroppedOnceRelayed(t, conform(t))
}

// A transaction that wrote to a day keeps it from being taken out until it ends, and what it wrote is taken out with the day. A pass
// does not wait for it, so that no other writer waits behind the pass.
//
//covers:postgres 16 state both
func TestPassGivesUpBehindAWriter(t *testing.T) { conformance.PassGivesUpBehindAWriter(t, conform(t)) }

// A dump restores what was taken out with its comment, in another transaction. Its position is of another server.
//
//covers:postgres 16 state both
func TestRestoredPartitionIsKept(t *testing.T) { conformance.RestoredPartitionIsKept(t, conform(t)) }

func TestReadInOrderOfCreation(t *testing.T) {
	c := conform(t)
	conformance.ReadInOrderOfCreation(t, c, func(id, key string, at time.Time) {
		c.exec(`INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, occurred_at, created_at)
			VALUES ($1::text::uuid, 'a', $2, 'e', now(), $3)`, "00000000-0000-0000-0000-0000000000"+id, key, at)
	})
}

func TestOldRowsAreDeletedByTheirKey(t *testing.T) {
	c := conform(t)
	c.exec(`CREATE TYPE kind AS ENUM ('a', 'A', 'b', 'c', 'd'); CREATE DOMAIN "Odd id" AS numeric`)
	conformance.OldRowsAreDeletedByTheirKey(t, c, map[string][5]string{
		"bigint":      {"9223372036854775803", "9223372036854775804", "9223372036854775805", "9223372036854775806", "9223372036854775807"},
		"uuid":        {"'0190c9a2-0000-7000-8000-000000000001'", "'0190c9a2-0000-7000-8000-000000000002'", "'0190c9a2-0000-7000-8000-000000000003'", "'0190c9a2-0000-7000-8000-000000000004'", "'0190c9a2-0000-7000-8000-000000000005'"},
		"varchar(20)": {`'a'`, `'A'`, `'{"\,}'`, `'NULL'`, `''`},
		"bytea":       {`'\x00'`, `'\x01'`, `'\xff'`, `'\xfe'`, `''`},
		"kind":        {`'a'`, `'A'`, `'b'`, `'c'`, `'d'`},
		`"Odd id"`:    {"0.1", "0.10001", "12345678901234567890123", "12345678901234567890124", "7"},
		"timestamptz": {"'2026-01-02 03:04:05.000001+05:30'", "'2026-01-02 03:04:05.000002+05:30'", "'2025-01-02'", "'2024-01-02'", "'2023-01-01'"},
	})
}

// A row that a transaction has locked waits, and rows that a policy hides are not taken for gone.
func TestOldRowsThatCannotBeDeleted(t *testing.T) {
	c := conform(t)
	conformance.OldRowsThatCannotBeDeleted(t, c, []conformance.Refused{
		{SQL: "CREATE TABLE others ()", Want: "correct tables[].name"},
		{SQL: "CREATE TABLE events (id int, at timestamptz); CREATE INDEX ON events (id)", Want: "create a unique index"},
		{SQL: "CREATE TABLE events (id int, at timestamptz, UNIQUE (id, at))", Want: "create a unique index"},
		{SQL: "CREATE TABLE events (id int, at timestamptz); CREATE UNIQUE INDEX ON events (id) WHERE id > 5", Want: "create a unique index"},
		{SQL: "CREATE TABLE events (id int, at timestamptz); CREATE UNIQUE INDEX ON events (abs(id))", Want: "create a unique index"},
		{SQL: "CREATE TABLE events (id int PRIMARY KEY, at bigint)", Want: "map created_at"},
		{SQL: "CREATE TABLE events (id int PRIMARY KEY, at date) PARTITION BY RANGE (id)", Want: "has partitions, which are dropped as a whole"},
		{SQL: "CREATE TABLE events (id int PRIMARY KEY, at date); CREATE TABLE heir () INHERITS (events)", Want: "ALTER TABLE public.heir NO INHERIT public.events"},
		{SQL: "CREATE TABLE events (id int PRIMARY KEY, at date); GRANT SELECT ON events TO " + c.role, Role: c.role, Want: "GRANT SELECT, DELETE ON public.events TO"},
		{SQL: "CREATE TABLE events (id int PRIMARY KEY, at date); GRANT SELECT, DELETE ON events TO " + c.role, Role: c.role},
	})
	c.exec("INSERT INTO events VALUES (1, '2020-01-01')")
	r, err := c.rows(c.role)
	testenv.Must(t, err)
	end := c.Hold("SELECT FROM events FOR UPDATE")
	if _, err := r.Act(t.Context(), []cdc.RowKey{{ID: "1", Value: "1"}}, false); err == nil || !strings.Contains(cdc.Explain(err), "a transaction held a lock on it") {
		t.Errorf("a locked row: %v", err)
	}
	end(false)
	c.exec("ALTER TABLE events ENABLE ROW LEVEL SECURITY")
	if keys, _, err := r.Due(t.Context(), 9); err == nil {
		t.Errorf("a policy hides rows: %v", keys)
	}
}

func TestOldRowsThatTheDatabaseKeeps(t *testing.T) {
	c := conform(t)
	conformance.OldRowsThatTheDatabaseKeeps(t, c, map[string]conformance.Kept{
		"NULL": {
			SQL: []string{"UPDATE events SET id = NULL WHERE id IN (3, 70)"}, Left: 2,
		},
		"foreign key": {
			SQL: []string{"CREATE TABLE note (event int REFERENCES events (id)); INSERT INTO note VALUES (3), (70)"}, Left: 2,
			Want: []string{"old rows not deleted: 2 rows, that of event 3 among them: ", "foreign key note_event_fkey of table public.note", `DROP CONSTRAINT "note_event_fkey"`},
		},
		"restricting, deferred": {
			SQL: []string{"CREATE TABLE note (event int REFERENCES events (id) ON DELETE RESTRICT, other int REFERENCES events (id) DEFERRABLE INITIALLY DEFERRED); INSERT INTO note VALUES (3, 4)"}, Left: 2,
			Want: []string{"old rows not deleted: 2 rows, that of event 3 among them: "},
		},
		"trigger with an error": {
			SQL: []string{"CREATE OR REPLACE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF OLD.id > 290 THEN RAISE ''wanted''; END IF; RETURN OLD; END'; CREATE TRIGGER keeper BEFORE DELETE ON events FOR EACH ROW EXECUTE FUNCTION keep()"}, Left: 10,
			Want: []string{"old rows not deleted: 10 rows, that of event 291 among them: ", `a trigger ON DELETE says "wanted"`, "Fix: change the trigger's function"},
		},
		"trigger with an error of its own": {
			SQL: []string{"CREATE OR REPLACE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF OLD.id > 290 THEN RAISE ''wanted'' USING ERRCODE = ''foreign_key_violation''; END IF; RETURN OLD; END'; CREATE TRIGGER keeper BEFORE DELETE ON events FOR EACH ROW EXECUTE FUNCTION keep()"}, Left: 10,
			Want: []string{"old rows not deleted: 10 rows, that of event 291 among them: ", `a trigger ON DELETE says "wanted" (SQLSTATE 23503)`},
		},
		"trigger that fails": {
			SQL: []string{"CREATE TABLE note (event int UNIQUE); INSERT INTO note VALUES (3), (70); CREATE OR REPLACE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO note VALUES (OLD.id); RETURN OLD; END'; CREATE TRIGGER keeper BEFORE DELETE ON events FOR EACH ROW EXECUTE FUNCTION keep()"}, Left: 2,
			Want: []string{"old rows not deleted: 2 rows, that of event 3 among them: ", "a trigger ON DELETE says \"duplicate key value"},
		},
		"trigger that returns NULL": {
			SQL: []string{"CREATE OR REPLACE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF OLD.id > 290 THEN RETURN NULL; END IF; RETURN OLD; END'; CREATE TRIGGER keeper BEFORE DELETE ON events FOR EACH ROW EXECUTE FUNCTION keep()"}, Left: 10,
			Want: []string{"old rows not deleted: 10 rows, that of event 291 among them: ", "Fix: make the trigger ON DELETE return OLD"},
		},
		"rule": {
			SQL: []string{"CREATE RULE keeper AS ON DELETE TO events DO INSTEAD NOTHING"}, Left: 300,
			Want: []string{"old rows not deleted: 300 rows, that of event 1 among them: ", "or drop the rule ON DELETE"},
		},
		"locked": {
			Hold: []string{"SELECT FROM events WHERE id = 1 FOR UPDATE"}, Left: 300,
			Want: []string{"a transaction held a lock on it", "which pg_locks and pg_stat_activity show"},
		},
		"another table that is locked": {
			SQL: []string{"CREATE TABLE note (event int REFERENCES events (id))"}, Hold: []string{"LOCK TABLE note"}, Left: 300,
			Want: []string{"or on a table that a foreign key connects with it"},
		},
	})
}
