package wal

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/retention"
)

const month = 30 * 24 * time.Hour

// rows returns the rows of table events and whether a role can delete them.
func (d *database) rows(role string) (*postgres.Rows, error) {
	d.t.Helper()
	db, err := postgres.OpenDatabase(d.t.Context(), postgres.Options{DSN: func(context.Context) (string, error) { return server.DSN(d.name, role), nil }})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { db.Close(context.WithoutCancel(d.t.Context())) })
	r := db.Rows(postgres.RowOptions{Table: "public.events", SQL: "public.events", Key: "id", At: "at", Slot: d.name, Slots: d.slots, Load: checkpoint.None{}.Load})
	err = r.Verify(d.t.Context())
	return r, err
}

// Rows are deleted by keys of every kind, and no others. A row of a transaction that commits after the rows were read stays,
// however old it is.
func TestOldRowsAreDeletedByTheirKey(t *testing.T) {
	d := newDatabase(t)
	d.exec(`CREATE TYPE kind AS ENUM ('a', 'A', 'b', 'c', 'd'); CREATE DOMAIN "Odd id" AS numeric`)
	for kind, ids := range map[string][5]string{
		"bigint":      {"9223372036854775803", "9223372036854775804", "9223372036854775805", "9223372036854775806", "9223372036854775807"},
		"uuid":        {"'0190c9a2-0000-7000-8000-000000000001'", "'0190c9a2-0000-7000-8000-000000000002'", "'0190c9a2-0000-7000-8000-000000000003'", "'0190c9a2-0000-7000-8000-000000000004'", "'0190c9a2-0000-7000-8000-000000000005'"},
		"varchar(20)": {`'a'`, `'A'`, `'{"\,}'`, `'NULL'`, `''`},
		"bytea":       {`'\x00'`, `'\x01'`, `'\xff'`, `'\xfe'`, `''`},
		"kind":        {`'a'`, `'A'`, `'b'`, `'c'`, `'d'`},
		`"Odd id"`:    {"0.1", "0.10001", "12345678901234567890123", "12345678901234567890124", "7"},
		"timestamptz": {"'2026-01-02 03:04:05.000001+05:30'", "'2026-01-02 03:04:05.000002+05:30'", "'2025-01-02'", "'2024-01-02'", "'2023-01-01'"},
	} {
		d.exec("DROP TABLE IF EXISTS events; CREATE TABLE events (id " + kind + " PRIMARY KEY, at timestamptz)")
		for i, id := range ids[:4] {
			d.exec(fmt.Sprintf("INSERT INTO events VALUES (%s, now() - interval '%d days')", id, []int{40, 20, 40, 20}[i]))
		}
		late := d.holding("INSERT INTO events VALUES (" + ids[4] + ", now() - interval '50 days')")
		r, err := d.rows("")
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		keys, behind, err := r.Old(t.Context(), month, 10)
		if err != nil || len(keys) != 2 {
			t.Fatalf("%s: %v, %v", kind, keys, err)
		}
		if err := late.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if passed, err := r.Passed(t.Context(), behind); err != nil {
			t.Errorf("%s: %v", kind, err)
		} else if passed {
			cdctest.Violation(t, cdctest.Unpublished, "%s: rows count as relayed before the slot has passed them", kind)
		}
		d.exec("SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())", d.name)
		if passed, err := r.Passed(t.Context(), behind); !passed || err != nil {
			t.Errorf("%s: not relayed: %v", kind, err)
		}
		n, _, err := r.Delete(t.Context(), keys, month)
		left := d.text("SELECT string_agg(quote_literal(id::text), ' ' ORDER BY at) FROM events WHERE id IN (" + ids[4] + ", " + ids[1] + ", " + ids[3] + ")")
		if err != nil || n != 2 || d.text("SELECT count(*)::text FROM events") != "3" {
			t.Errorf("%s: %d deleted, %s are left: %v", kind, n, left, err)
		}
	}
}

// What cannot be deleted safely, or not by this role, is refused with the fix. A row that a transaction has locked waits.
func TestOldRowsThatCannotBeDeleted(t *testing.T) {
	d := newDatabase(t)
	role := d.name[:min(len(d.name), 50)] + "_role"
	d.exec("CREATE ROLE " + role + " LOGIN")
	t.Cleanup(func() {
		_, _ = d.conn.Exec(context.WithoutCancel(t.Context()), "DROP OWNED BY "+role+"; DROP ROLE "+role)
	})
	for _, tt := range []struct{ sql, role, want string }{
		{"CREATE TABLE others ()", "", "correct tables[].name"},
		{"CREATE TABLE events (id int, at timestamptz); CREATE INDEX ON events (id)", "", "create a unique index"},
		{"CREATE TABLE events (id int, at timestamptz, UNIQUE (id, at))", "", "create a unique index"},
		{"CREATE TABLE events (id int, at timestamptz); CREATE UNIQUE INDEX ON events (id) WHERE id > 5", "", "create a unique index"},
		{"CREATE TABLE events (id int, at timestamptz); CREATE UNIQUE INDEX ON events (abs(id))", "", "create a unique index"},
		{"CREATE TABLE events (id int PRIMARY KEY, at bigint)", "", "map created_at"},
		{"CREATE TABLE events (id int PRIMARY KEY, at date) PARTITION BY RANGE (id)", "", "set partitions in place"},
		{"CREATE TABLE events (id int PRIMARY KEY, at date); CREATE TABLE heir () INHERITS (events)", "", "ALTER TABLE public.heir NO INHERIT public.events"},
		{"CREATE TABLE events (id int PRIMARY KEY, at date); GRANT SELECT ON events TO " + role, role, "GRANT SELECT, DELETE ON public.events TO"},
		{"CREATE TABLE events (id int PRIMARY KEY, at date); GRANT SELECT, DELETE ON events TO " + role, role, ""},
	} {
		d.exec("DROP TABLE IF EXISTS events CASCADE; DROP TABLE IF EXISTS others; " + tt.sql)
		_, err := d.rows(tt.role)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(cdc.Explain(err), tt.want) {
			t.Errorf("%s: %v; want %q", tt.sql, err, tt.want)
		}
	}
	d.exec("INSERT INTO events VALUES (1, '2020-01-01')")
	r, err := d.rows(role)
	if err != nil {
		t.Fatal(err)
	}
	held := d.holding("SELECT FROM events FOR UPDATE")
	if _, _, err := r.Delete(t.Context(), []any{"1"}, month); err == nil || !strings.Contains(cdc.Explain(err), "end the transaction of process") {
		t.Errorf("a locked row: %v", err)
	}
	if err := held.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.exec("ALTER TABLE events ENABLE ROW LEVEL SECURITY")
	if keys, _, err := r.Old(t.Context(), month, 9); err == nil {
		t.Errorf("a policy hides rows: %v", keys)
	}
}

// relayedRows are rows whose position is saved.
type relayedRows struct{ *postgres.Rows }

func (relayedRows) Passed(context.Context, cdc.Position) (bool, error) { return true, nil }

// Rows that the database keeps stay, with the reason, and all others are deleted in the same pass. A lock is reported with its table
// and the process that holds it.
func TestOldRowsThatTheDatabaseKeeps(t *testing.T) {
	d := newDatabase(t)
	for title, tt := range map[string]struct {
		sql, hold string
		left      string
		want      []string
	}{
		"NULL": {
			"ALTER TABLE events ALTER id DROP NOT NULL; UPDATE events SET id = NULL WHERE id IN (3, 70)", "", "2",
			[]string{"not deleted: 2, whose column id is NULL", "Fix: set it with UPDATE public.events SET \"id\" = ..."},
		},
		"foreign key": {
			"CREATE TABLE note (event int REFERENCES events (id)); INSERT INTO note VALUES (3), (70)", "", "2",
			[]string{"not deleted: 2, among them that of event 3: ", "foreign key note_event_fkey of table public.note", `DROP CONSTRAINT "note_event_fkey"`},
		},
		"restricting, deferred": {
			"CREATE TABLE note (event int REFERENCES events (id) ON DELETE RESTRICT, other int REFERENCES events (id) DEFERRABLE INITIALLY DEFERRED); INSERT INTO note VALUES (3, 4)", "", "2",
			[]string{"not deleted: 2, among them that of event 3: "},
		},
		"trigger with an error": {
			"CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF OLD.id > 290 THEN RAISE ''wanted''; END IF; RETURN OLD; END'; CREATE TRIGGER keeper BEFORE DELETE ON events FOR EACH ROW EXECUTE FUNCTION keep()", "", "10",
			[]string{"not deleted: 10, among them that of event 291: ", `a trigger ON DELETE says "wanted"`, "Fix: change the trigger's function"},
		},
		"trigger with an error of its own": {
			"CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF OLD.id > 290 THEN RAISE ''wanted'' USING ERRCODE = ''foreign_key_violation''; END IF; RETURN OLD; END'; CREATE TRIGGER keeper BEFORE DELETE ON events FOR EACH ROW EXECUTE FUNCTION keep()", "", "10",
			[]string{"not deleted: 10, among them that of event 291: ", `a trigger ON DELETE says "wanted" (SQLSTATE 23503)`},
		},
		"trigger that fails": {
			"CREATE TABLE note (event int UNIQUE); INSERT INTO note VALUES (3), (70); CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO note VALUES (OLD.id); RETURN OLD; END'; CREATE TRIGGER keeper BEFORE DELETE ON events FOR EACH ROW EXECUTE FUNCTION keep()", "", "2",
			[]string{"not deleted: 2, among them that of event 3: ", "a trigger ON DELETE says \"duplicate key value"},
		},
		"trigger that returns NULL": {
			"CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF OLD.id > 290 THEN RETURN NULL; END IF; RETURN OLD; END'; CREATE TRIGGER keeper BEFORE DELETE ON events FOR EACH ROW EXECUTE FUNCTION keep()", "", "10",
			[]string{"not deleted: 10, among them that of event 291: ", "DELETE has trigger keeper", "Fix: make the trigger return OLD"},
		},
		"rule": {
			"CREATE RULE keeper AS ON DELETE TO events DO INSTEAD NOTHING", "", "300",
			[]string{"not deleted: 300, among them that of event 1: ", "DELETE has rule keeper"},
		},
		"locked": {
			"", "SELECT FROM events WHERE id = 1 FOR UPDATE", "300",
			[]string{"holds a lock on table events (RowShareLock)", "end the transaction of process "},
		},
		"another table that is locked": {
			"CREATE TABLE note (event int REFERENCES events (id))", "LOCK TABLE note", "300",
			[]string{"holds a lock on table note (AccessExclusiveLock)", "end the transaction of process "},
		},
	} {
		d.exec(`DROP TABLE IF EXISTS events, note CASCADE; DROP FUNCTION IF EXISTS keep; CREATE TABLE events (id int UNIQUE, at timestamptz);
			INSERT INTO events SELECT i, now() - interval '40 days' FROM generate_series(1, 300) i;` + tt.sql)
		process, release := "", func(context.Context) error { return nil }
		if tt.hold != "" {
			tx := d.holding(tt.hold)
			process, release = fmt.Sprintf("process %d ", tx.Conn().PgConn().PID()), tx.Rollback
		}
		r, err := d.rows("")
		if err != nil {
			t.Fatalf("%s: %v", title, err)
		}
		open := func(context.Context) ([]retention.Rows, func(), error) {
			return []retention.Rows{relayedRows{r}}, func() {}, nil
		}
		reg := prometheus.NewRegistry()
		err = retention.NewPurger(retention.PurgeOptions{OlderThan: month, Batch: 5}, open, retention.Unguarded, slog.New(slog.DiscardHandler), reg).Purge(t.Context())
		if err := release(t.Context()); err != nil {
			t.Fatal(err)
		}
		said := "nothing"
		if err != nil {
			said = cdc.Explain(err)
		}
		for _, want := range append(tt.want, process) {
			if !strings.Contains(said, want) {
				t.Errorf("%s: it says %s\nwant %q", title, said, want)
			}
		}
		if left := d.text("SELECT count(*)::text FROM events"); left != tt.left {
			t.Errorf("%s: %s rows are left, want %s", title, left, tt.left)
		}
		if counted := deleted(t, reg); strconv.Itoa(300-counted) != tt.left {
			t.Errorf("%s: %d rows are counted as deleted, and %s of 300 are left", title, counted, tt.left)
		}
	}
}

// deleted is what the metric of deleted rows counts.
func deleted(t *testing.T, reg *prometheus.Registry) (n int) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "cdc_relay_rows_deleted_total" {
				n += int(m.GetCounter().GetValue())
			}
		}
	}
	return n
}

// Rows of a table that inherits from the outbox are not published, and not deleted, also if it is made in the middle of a pass, which
// has verified that there was none.
func TestRowsOfAChildAreKept(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE events (id int UNIQUE, at timestamptz); INSERT INTO events VALUES (1, now() - interval '40 days')")
	r, err := d.rows("")
	if err != nil {
		t.Fatal(err)
	}
	d.exec("CREATE TABLE child () INHERITS (events); INSERT INTO child VALUES (1, now() - interval '40 days'), (2, now() - interval '40 days')")
	keys, _, err := r.Old(t.Context(), month, 10)
	if err != nil {
		t.Fatal(err)
	}
	if n, _, err := r.Delete(t.Context(), keys, month); n != 1 || err != nil {
		t.Errorf("%d deleted, %v", n, err)
	}
	if left := d.text("SELECT count(*)::text FROM child"); left != "2" {
		cdctest.Violation(t, cdctest.Unpublished, "%s rows of the child are left, want 2", left)
	}
}
