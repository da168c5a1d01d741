package wal

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/test/conformance"
)

// days makes the table days with a partition of three rows and another one of two.
func (d *database) days() postgres.ReadOptions {
	d.exec("CREATE TABLE days (id int, at timestamptz NOT NULL, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)")
	d.exec("CREATE TABLE first PARTITION OF days FOR VALUES FROM ('2026-01-01') TO ('2026-01-02')")
	d.exec("CREATE TABLE rest PARTITION OF days DEFAULT")
	d.exec("INSERT INTO days SELECT i, '2026-01-01 12:00Z'::timestamptz + (i / 4) * interval '1 day' FROM generate_series(1, 5) i")
	return postgres.ReadOptions{
		Table: "public.days", SQL: "public.days", Key: "id", At: "at",
		TakenOut: "SELECT oid::regclass::text FROM pg_class WHERE relname = 'first' AND relkind = 'r' AND NOT relispartition",
	}
}

// exportSnapshot takes a snapshot, which lasts as long as the test.
func (d *database) exportSnapshot() (name string) {
	d.t.Helper()
	conn, err := pgx.Connect(d.t.Context(), server.DSN(d.name, ""))
	if err == nil {
		_, err = conn.Exec(d.t.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ")
	}
	if err == nil {
		err = conn.QueryRow(d.t.Context(), "SELECT pg_export_snapshot()").Scan(&name)
	}
	testenv.Must(d.t, err)
	d.t.Cleanup(func() { _ = conn.PgConn().Conn().Close() })
	return name
}

// A partition that is taken out while a statement waits for the table's lock is neither in the table nor known to be beside it. Its
// rows are counted and read all the same, also in a snapshot from before.
func TestDetachedWhileAStatementWaits(t *testing.T) {
	for name, inSnapshot := range map[string]bool{"as it is": false, "in a snapshot": true} {
		t.Run(name, func(t *testing.T) {
			d := newDatabase(t)
			o := d.days()
			if inSnapshot {
				o.Snapshot = d.exportSnapshot()
			}
			r := d.reader(o)
			for _, read := range map[string]func() (string, error){
				"keys": func() (string, error) {
					keys, err := r.Keys(t.Context(), tableread.Filter{}, tableread.Window{}, tableread.Key{}, 10)
					var ids []string
					for _, key := range keys {
						ids = append(ids, key.ID)
					}
					return strings.Join(ids, " "), err
				},
				"count": func() (string, error) {
					n, err := r.Count(t.Context(), tableread.Filter{})
					return strings.TrimSpace("1 2 3 4 5"[:2*n-1]), err
				},
			} {
				d.exec("BEGIN")
				d.exec("LOCK TABLE days")
				d.exec("ALTER TABLE days DETACH PARTITION first")
				got := make(chan string, 1)
				go func() {
					ids, err := read()
					if err != nil {
						ids = err.Error()
					}
					got <- ids
				}()
				d.await("the reader to wait", "EXISTS (SELECT FROM pg_locks WHERE relation = 'days'::regclass AND NOT granted)")
				d.exec("COMMIT")
				equal(t, strings.Fields(<-got), strings.Fields("1 2 3 4 5"))
				d.exec("ALTER TABLE days ATTACH PARTITION first FOR VALUES FROM ('2026-01-01') TO ('2026-01-02')")
			}
		})
	}
}

// What a snapshot shows no more is not read as if there were no rows: the reading ends. Anything else that happens to the table
// changes nothing, and waits for nobody.
func TestTableChangesBehindASnapshot(t *testing.T) {
	const want, lost = "1 2 3 4 5", "was rewritten, truncated, detached or replaced while it was read"
	for name, c := range map[string]struct{ sql, want string }{
		"inserted and deleted":    {"INSERT INTO days VALUES (6, '2026-01-01'); DELETE FROM days WHERE id = 2", want},
		"column added":            {"ALTER TABLE days ADD COLUMN note text DEFAULT 'x'; INSERT INTO days VALUES (6, '2026-01-01', 'y')", want},
		"taken out":               {"ALTER TABLE days DETACH PARTITION first; DELETE FROM first WHERE id = 1", want},
		"partition made":          {"CREATE TABLE later PARTITION OF days FOR VALUES FROM ('2030-01-01') TO ('2030-01-02')", want},
		"partition dropped":       {"DROP TABLE rest", "1 2 3"},
		"rewritten":               {"ALTER TABLE days ADD COLUMN u uuid DEFAULT gen_random_uuid()", lost},
		"truncated":               {"TRUNCATE first", lost},
		"detached":                {"ALTER TABLE days DETACH PARTITION rest", "table rest " + lost},
		"taken out and rewritten": {"ALTER TABLE days DETACH PARTITION first; ALTER TABLE first ADD COLUMN u uuid DEFAULT gen_random_uuid()", lost},
		"replaced":                {"ALTER TABLE days RENAME TO old; CREATE TABLE days (LIKE old)", lost},
		"exchanged":               {"ALTER TABLE days RENAME TO old; ALTER TABLE twin RENAME TO days", lost},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDatabase(t)
			o := d.days()
			d.exec("CREATE TABLE twin (LIKE days)")
			o.Snapshot = d.exportSnapshot()
			r := d.reader(o)
			if got, err := conformance.Column(t, r, tableread.Filter{}, "id"); err != nil || got != want {
				t.Fatalf("at first: %q, %v", got, err)
			}
			for sql := range strings.SplitSeq(c.sql, "; ") {
				d.exec(sql)
			}
			got, err := conformance.Column(t, r, tableread.Filter{}, "id")
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
