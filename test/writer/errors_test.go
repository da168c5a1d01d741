package writer_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/cdc-relay/cdc-relay/writer"
)

// TestDatabaseErrorsSayWhatToDo provokes each answer of the server that has a mend.
func TestDatabaseErrorsSayWhatToDo(t *testing.T) {
	db := newDatabase(t, server, plain("public.outbox"), plain("public.no_tenant"), plain("public.as_jsonb"))
	db.exec(t, "ALTER TABLE no_tenant DROP COLUMN tenant_id")
	db.exec(t, "ALTER TABLE as_jsonb ALTER COLUMN payload TYPE jsonb USING NULL")
	db.exec(t, "CREATE TABLE no_partition (LIKE outbox INCLUDING ALL) PARTITION BY HASH (event_id)")
	db.exec(t, "DROP ROLE IF EXISTS no_rights")
	db.exec(t, "CREATE ROLE no_rights LOGIN")
	for _, w := range ways() {
		for name, c := range map[string]struct{ table, user, before, want string }{
			"no table":        {"missing", "", "", "cdc-relay schema apply"},
			"no column":       {"no_tenant", "", "", "compare the table's columns with 'cdc-relay schema print'"},
			"another type":    {"as_jsonb", "", "", "use WithPayloadColumn"},
			"no right":        {"outbox", "no_rights", "", `GRANT INSERT ON "outbox" to the role`},
			"no partition":    {"no_partition", "", "", "add a DEFAULT partition"},
			"read-only":       {"outbox", "", "SET TRANSACTION READ ONLY", "open a read-write transaction"},
			"failed before":   {"outbox", "", "SELECT 1/0", "an earlier statement of this transaction failed"},
			"appended before": {"outbox", "", "append", "append each event once"},
		} {
			t.Run(w.name+"/"+name, func(t *testing.T) {
				ctx := t.Context()
				for n, what := range map[int]string{1: "insert 1 event into", 2: "insert 2 events into"} {
					tx, events := w.open(t, db, c.user, writer.WithTable(c.table)).begin(t), newEvents(n)
					switch c.before {
					case "":
					case "append":
						if err := tx.Append(ctx, events...); err != nil {
							t.Fatal(err)
						}
					default:
						_ = tx.Exec(ctx, c.before)
					}
					err := tx.Append(ctx, events...)
					if err == nil || !strings.HasPrefix(err.Error(), what) || !strings.Contains(err.Error(), c.want) {
						t.Errorf("error %v, want %q and %q", err, what, c.want)
					}
					if errors.Is(err, writer.ErrInvalidEvent) {
						t.Error("the database's answer passes for an invalid event")
					}
					_ = tx.Rollback(ctx)
				}
			})
		}
	}
}

func TestAppendAfterTheEndSaysSo(t *testing.T) {
	db := newDatabase(t, server, plain("public.outbox"))
	for _, w := range ways() {
		tx := w.open(t, db, "").begin(t)
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := tx.Append(t.Context(), newEvent(1)); err == nil || !strings.Contains(err.Error(), "before the transaction is committed") {
			t.Errorf("%s: error %v", w.name, err)
		}
	}
}

func TestAppendEndsWithItsContext(t *testing.T) {
	db := newDatabase(t, server, plain("public.outbox"))
	db.exec(t, "CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); RETURN NEW; END'")
	db.exec(t, "CREATE TRIGGER hang BEFORE INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION hang()")
	const hanging = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			tx, e, done := w.open(t, db, "").begin(t), newEvent(1), make(chan error, 1)
			go func() { done <- tx.Append(ctx, e) }()
			for n := 0; n == 0; {
				if err := db.conn.QueryRow(t.Context(), hanging).Scan(&n); err != nil {
					t.Fatal(err)
				}
			}
			cancel()
			if err := <-done; err == nil {
				t.Error("no error")
			}
			if e.ID == uuid.Nil {
				t.Error("the event lost its id")
			}
		})
	}
}
