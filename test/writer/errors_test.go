package writer_test

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
)

// mistake causes a server error for which the writer knows a fix.
type mistake struct{ table, user, before, want string }

func TestPostgresErrorsNameTheFix(t *testing.T) {
	db := newDatabase(t, pg, plain("outbox"), plain("no_tenant"), plain("as_jsonb"))
	db.exec(t, "ALTER TABLE no_tenant DROP COLUMN tenant_id")
	db.exec(t, "ALTER TABLE as_jsonb ALTER COLUMN payload TYPE jsonb USING NULL")
	db.exec(t, "CREATE TABLE no_partition (LIKE outbox INCLUDING ALL) PARTITION BY HASH (event_id)")
	db.exec(t, "DROP ROLE IF EXISTS no_rights")
	db.exec(t, "CREATE ROLE no_rights LOGIN")
	errorsSayWhatToDo(t, db, map[string]mistake{
		"no table":        {"missing", "", "", "cdc-relay setup"},
		"no column":       {"no_tenant", "", "", "compare the table's columns with 'cdc-relay schema print'"},
		"another type":    {"as_jsonb", "", "", "use WithPayloadColumn"},
		"no right":        {"outbox", "no_rights", "", `GRANT INSERT ON "outbox" to the role`},
		"no partition":    {"no_partition", "", "", "add a DEFAULT partition"},
		"read-only":       {"outbox", "", "SET TRANSACTION READ ONLY", "open a read-write transaction"},
		"failed before":   {"outbox", "", "SELECT 1/0", "an earlier statement of this transaction failed"},
		"appended before": {"outbox", "", "append", "append each event once"},
	})
}

func TestMySQLErrorsNameTheFix(t *testing.T) {
	onBoth(t, func(t *testing.T, m mysql) {
		day := plain("no_partition")
		day.Partition, day.From = outbox.PartitionDaily, time.Now().Add(-48*time.Hour)
		db := newDatabase(t, m, plain("outbox"), plain("no_tenant"), plain("short"), day)
		db.exec(t, "ALTER TABLE no_tenant DROP COLUMN tenant_id", "ALTER TABLE short MODIFY aggregate_id VARCHAR(2) NOT NULL",
			"ALTER TABLE no_partition DROP PARTITION pmax", "CREATE USER IF NOT EXISTS no_rights@`%`", "GRANT SELECT ON "+db.name+".* TO no_rights@`%`")
		errorsSayWhatToDo(t, db, map[string]mistake{
			"no table":        {"missing", "", "", "cdc-relay setup"},
			"no column":       {"no_tenant", "", "", "compare the table's columns with 'cdc-relay schema print'"},
			"too short":       {"short", "", "", "compare the columns' lengths with 'cdc-relay schema print'"},
			"no right":        {"outbox", "no_rights", "", "GRANT INSERT ON `outbox` to the user"},
			"no partition":    {"no_partition", "", "", "add a partition for MAXVALUE"},
			"read-only":       {"outbox", "", "START TRANSACTION READ ONLY", "open a read-write transaction"},
			"appended before": {"outbox", "", "append", "append each event once"},
		})
	})
}

func errorsSayWhatToDo(t *testing.T, db *database, mistakes map[string]mistake) {
	t.Helper()
	for _, w := range db.ways() {
		for name, c := range mistakes {
			t.Run(w.name+"/"+name, func(t *testing.T) {
				ctx := t.Context()
				for n, what := range map[int]string{1: "insert 1 event into", 2: "insert 2 events into"} {
					tx, events := w.open(t, db.name, c.user, writer.WithTable(c.table)).begin(t), newEvents(n)
					switch c.before {
					case "":
					case "append":
						testenv.Must(t, tx.Append(ctx, events...))
					default:
						_ = tx.Exec(ctx, c.before)
					}
					err := tx.Append(ctx, events...)
					if err == nil || !strings.HasPrefix(err.Error(), what) || !strings.Contains(err.Error(), c.want) {
						t.Errorf("error %v, want %q and %q", err, what, c.want)
					}
					if errors.Is(err, writer.ErrInvalidEvent) || errors.Is(err, writer.ErrDuplicate) != (c.before == "append") {
						t.Errorf("%v is of the wrong kind", err)
					}
					_ = tx.Rollback(ctx)
				}
			})
		}
	}
}

// With SkipDuplicate, events that were appended in this or an earlier transaction are skipped.
func TestDuplicatesAreSkipped(t *testing.T) {
	onEachWay(t, func(t *testing.T, db *database, w way) {
		session, events := w.open(t, db.name, "", writer.WithOnDuplicate(writer.SkipDuplicate)), newEvents(12)
		appendAll(t, session, events[0])
		appendAll(t, session, events[:2]...)
		changed := *events[0]
		changed.Type = "SomethingElse"
		tx := session.begin(t)
		for _, batch := range [][]*writer.Event{{&changed}, events[:3], events} {
			testenv.Must(t, tx.Append(t.Context(), batch...))
		}
		testenv.Must(t, tx.Commit(t.Context()))
		requireRows(t, db.rows(t, "outbox"), events)
	})
}

func TestAppendAfterTheEndIsAnError(t *testing.T) {
	onEachWay(t, func(t *testing.T, db *database, w way) {
		tx := w.open(t, db.name, "").begin(t)
		testenv.Must(t, tx.Commit(t.Context()))
		if err := tx.Append(t.Context(), newEvent(1)); err == nil || !strings.Contains(err.Error(), "before the transaction is committed") {
			t.Errorf("error %v", err)
		}
	})
}

func TestAppendEndsWithItsContext(t *testing.T) { onEach(t, appendEndsWithItsContext) }

func appendEndsWithItsContext(t *testing.T, e engine) {
	t.Helper()
	db := newDatabase(t, e, daily("outbox"))
	db.exec(t, db.speech().hang...)
	var hung int // the newest connection that hung; MySQL continues statements of lost connections
	hangs := func() bool {
		var newest sql.NullInt64
		testenv.Must(t, db.conn.QueryRowContext(t.Context(), db.speech().hanging, hung).Scan(&newest))
		if newest.Valid {
			hung = int(newest.Int64)
		}
		return newest.Valid
	}
	for _, w := range e.ways() {
		t.Run(w.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			tx, e, done := w.open(t, db.name, "").begin(t), newEvent(1), make(chan error, 1)
			go func() { done <- tx.Append(ctx, e) }()
			for !hangs() {
				runtime.Gosched()
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
