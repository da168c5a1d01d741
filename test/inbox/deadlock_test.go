package inbox_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// In a deadlock MySQL and MariaDB roll back the whole transaction, and would commit what another handler does after it.
func TestAllStopsAfterADeadlock(t *testing.T) {
	for _, s := range servers[1:] {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, s)
			in, err := inbox.New(inbox.SQL(db.conn, db.dialect), "c")
			must(t, err)
			// The other transaction has changed more rows, so the server ends the handler's.
			db.exec(t, "INSERT INTO stock VALUES (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0), (8, 0), (9, 0)")
			other, err := db.conn.BeginTx(t.Context(), nil)
			must(t, err)
			_, err = other.ExecContext(t.Context(), "UPDATE stock SET n = 1 WHERE id > 1")
			must(t, err)
			attempt, ended := 0, make(chan error, 1)
			handle := inbox.All(
				func(ctx context.Context, tx *sql.Tx, _ *inbox.Message) error {
					if attempt++; attempt > 1 {
						return nil
					}
					if _, err := tx.ExecContext(ctx, "UPDATE stock SET n = 2 WHERE id = 1"); err != nil {
						return err
					}
					go func() {
						_, err := other.ExecContext(context.WithoutCancel(ctx), "UPDATE stock SET n = 1 WHERE id = 1")
						ended <- err
					}()
					_, err := tx.ExecContext(ctx, "UPDATE stock SET n = 2 WHERE id = 2")
					return err
				},
				func(ctx context.Context, tx *sql.Tx, _ *inbox.Message) error {
					_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES ('1')")
					return err
				},
			)
			m := message("1")
			_, err = in.Handle(t.Context(), m, func(ctx context.Context, tx *sql.Tx) error { return handle(ctx, tx, m) })
			must(t, err)
			must(t, <-ended)
			must(t, other.Rollback())
			if n := db.count(t, "effects"); n != 1 || attempt != 2 {
				cdctest.Violation(t, kindOf(n), "%d effects after %d attempts", n, attempt)
			}
		})
	}
}
