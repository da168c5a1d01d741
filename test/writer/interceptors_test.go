package writer_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/writer"
)

func TestRetryableOfEveryDriver(t *testing.T) { onEach(t, retryable) }

// retryable errors are those of real transactions that get into each other's way, by every driver.
func retryable(t *testing.T, e engine) {
	t.Helper()
	db := newDatabase(t, e, plain("outbox"))
	db.exec(t, "CREATE TABLE stock (id int PRIMARY KEY, n int)", "INSERT INTO stock VALUES (1, 0), (2, 0)")
	for _, w := range db.ways() {
		t.Run(w.name+"/deadlock", func(t *testing.T) {
			first, second := w.open(t, db.name, "").begin(t), w.open(t, db.name, "").begin(t)
			must(t, first.Exec(t.Context(), "UPDATE stock SET n = n + 1 WHERE id = 1"))
			must(t, second.Exec(t.Context(), "UPDATE stock SET n = n + 1 WHERE id = 2"))
			waits := make(chan error, 1)
			go func() { waits <- first.Exec(t.Context(), "UPDATE stock SET n = n + 1 WHERE id = 2") }()
			err := second.Exec(t.Context(), "UPDATE stock SET n = n + 1 WHERE id = 1")
			// The victim's transaction may be the other one, which goes on only once this one has ended.
			_ = second.Rollback(t.Context())
			if err = errors.Join(err, <-waits); err == nil || !writer.Retryable(err) {
				t.Errorf("error %v", err)
			}
		})
		for name, c := range db.speech().conflicts {
			t.Run(w.name+"/"+name, func(t *testing.T) {
				first, second := w.open(t, db.name, "").begin(t), w.open(t, db.name, "").begin(t)
				for _, s := range append(c.before, "SELECT n FROM stock") {
					must(t, first.Exec(t.Context(), s))
				}
				must(t, second.Exec(t.Context(), "UPDATE stock SET n = n + 1 WHERE id = 1"))
				if c.commit {
					must(t, second.Commit(t.Context()))
				}
				if err := first.Exec(t.Context(), "UPDATE stock SET n = n + 1 WHERE id = 1"); err == nil || !writer.Retryable(err) {
					t.Errorf("error %v", err)
				}
			})
		}
	}
}

// bun's transaction formats statements itself. The error names the fix, which works.
func TestBunsTransaction(t *testing.T) {
	db := newDatabase(t, pg, plain("outbox"))
	for _, driver := range []string{"pgx", "postgres"} {
		pool, err := sql.Open(driver, pg.DSN(db.name, ""))
		must(t, err)
		t.Cleanup(func() { _ = pool.Close() })
		events, err := writer.New(writer.Postgres)
		must(t, err)
		tx, err := bun.NewDB(pool, pgdialect.New()).BeginTx(t.Context(), nil)
		must(t, err)
		if err := events.Append(t.Context(), tx, newEvent(1)); err == nil || !strings.Contains(err.Error(), "append with tx.Tx") {
			t.Errorf("%s: error %v", driver, err)
		}
		must(t, tx.Rollback())
		tx, err = bun.NewDB(pool, pgdialect.New()).BeginTx(t.Context(), nil)
		must(t, err)
		must(t, events.Append(t.Context(), tx.Tx, newEvent(1)))
		must(t, tx.Rollback())
	}
}

func must(tb rapid.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
