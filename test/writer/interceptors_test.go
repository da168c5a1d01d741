package writer_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/writer"
)

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
