package writer_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
)

// bun's transaction formats statements itself. The error names the fix, which works.
func TestBunsTransaction(t *testing.T) {
	db := newDatabase(t, pg, plain("outbox"))
	for _, driver := range []string{"pgx", "postgres"} {
		pool, err := sql.Open(driver, pg.DSN(db.name, ""))
		testenv.Must(t, err)
		t.Cleanup(func() { _ = pool.Close() })
		events, err := writer.New(writer.Postgres)
		testenv.Must(t, err)
		tx, err := bun.NewDB(pool, pgdialect.New()).BeginTx(t.Context(), nil)
		testenv.Must(t, err)
		if err := events.Append(t.Context(), tx, newEvent(1)); err == nil || !strings.Contains(err.Error(), "append with tx.Tx") {
			t.Errorf("%s: error %v", driver, err)
		}
		testenv.Must(t, tx.Rollback())
		tx, err = bun.NewDB(pool, pgdialect.New()).BeginTx(t.Context(), nil)
		testenv.Must(t, err)
		testenv.Must(t, events.Append(t.Context(), tx.Tx, newEvent(1)))
		testenv.Must(t, tx.Rollback())
	}
}
