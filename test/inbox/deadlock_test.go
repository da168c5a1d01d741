package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/writer"
)

// onEachThatGoesOn runs a test on MySQL and MariaDB: in a deadlock they roll back the whole transaction, and the next statement begins
// another one. PostgreSQL refuses it.
func onEachThatGoesOn(t *testing.T, test func(t *testing.T, db *database)) {
	t.Helper()
	for _, s := range servers[1:] {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, s)
			db.exec(t, "INSERT INTO stock VALUES (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0), (8, 0), (9, 0)")
			test(t, db)
		})
	}
}

// loseDeadlock returns the error of a deadlock that ends the transaction: another one has changed more rows.
func (db *database) loseDeadlock(ctx context.Context, tx *sql.Tx) error {
	other, err := db.conn.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return err
	}
	_, err = other.ExecContext(ctx, "UPDATE stock SET n = 1 WHERE id > 1")
	if err == nil {
		_, err = tx.ExecContext(ctx, "UPDATE stock SET n = 2 WHERE id = 1")
	}
	if err != nil {
		return errors.Join(err, other.Rollback())
	}
	ended := make(chan error, 1)
	go func() {
		_, err := other.ExecContext(ctx, "UPDATE stock SET n = 1 WHERE id = 1")
		ended <- err
	}()
	_, err = tx.ExecContext(ctx, "UPDATE stock SET n = 2 WHERE id = 2")
	if failed := errors.Join(<-ended, other.Rollback()); failed != nil {
		return failed
	}
	return err
}

func TestAllStopsAfterADeadlock(t *testing.T) {
	onEachThatGoesOn(t, func(t *testing.T, db *database) {
		t.Helper()
		in, err := inbox.New(inbox.SQL(db.conn, db.dialect), "c")
		must(t, err)
		attempt := 0
		handle := inbox.All(
			func(ctx context.Context, tx *sql.Tx, _ *inbox.Message) error {
				if attempt++; attempt > 1 {
					return nil
				}
				return db.loseDeadlock(ctx, tx)
			},
			effect,
		)
		m := message("1")
		_, err = in.Handle(t.Context(), m, func(ctx context.Context, tx *sql.Tx) error { return handle(ctx, tx, m) })
		must(t, err)
		if n := db.count(t, "effects"); n != 1 || attempt != 2 {
			cdctest.Violation(t, kindOf(n), "%d effects after %d attempts", n, attempt)
		}
	})
}

// A handler that hides the error of a deadlock, and goes on, has no effect: its message is not recorded anymore. Also if another process
// has handled the message in between, and its row is there.
func TestHiddenDeadlock(t *testing.T) {
	onEachThatGoesOn(t, func(t *testing.T, db *database) {
		t.Helper()
		for _, between := range []bool{false, true} {
			p := newParked(t, inbox.SQL(db.conn, db.dialect), "c")
			m, behind := record("a", 1), record("b", 2)
			for name, handle := range map[string]func(work func(ctx context.Context, tx *sql.Tx, ms ...*inbox.Message) error) error{
				"Handle": func(work func(ctx context.Context, tx *sql.Tx, ms ...*inbox.Message) error) error {
					_, err := p.in.Handle(t.Context(), m, func(ctx context.Context, tx *sql.Tx) error { return work(ctx, tx, m) })
					return err
				},
				"HandleBatch": func(work func(ctx context.Context, tx *sql.Tx, ms ...*inbox.Message) error) error {
					_, err := p.in.HandleBatch(t.Context(), []*inbox.Message{m, behind}, func(ctx context.Context, tx *sql.Tx, ms []*inbox.Message) error { return work(ctx, tx, ms...) })
					return err
				},
				"Redo": func(work func(ctx context.Context, tx *sql.Tx, ms ...*inbox.Message) error) error {
					if row := p.first(); row != nil {
						_, err := p.Redo(t.Context(), row, func(ctx context.Context, tx *sql.Tx) error { return work(ctx, tx, row.Message) })
						return err
					}
					return nil
				},
			} {
				if name == "Redo" {
					p.park(m, true)
				}
				hidden := false
				var work func(ctx context.Context, tx *sql.Tx, ms ...*inbox.Message) error
				work = func(ctx context.Context, tx *sql.Tx, ms ...*inbox.Message) error {
					if !hidden {
						hidden = true
						if err := db.loseDeadlock(ctx, tx); !writer.Retryable(err) {
							t.Errorf("no deadlock: %v", err)
						}
						if between {
							must(t, handle(work))
						}
					}
					for _, m := range ms {
						if err := effect(ctx, tx, m); err != nil {
							return err
						}
					}
					return nil
				}
				first := handle(work)
				if name != "HandleBatch" && !errors.Is(first, writer.ErrNoTransaction) { // which goes on one by one
					t.Errorf("%s: %v", name, first)
				}
				must(t, handle(work))
				if n := db.count(t, "effects WHERE message = 'a1'"); n != 1 {
					cdctest.Violation(t, kindOf(n), "%s, another process in between %v: %d effects (%v)", name, between, n, first)
				}
				db.exec(t, "DELETE FROM effects", "DELETE FROM inbox", "DELETE FROM inbox_parked")
			}
		}
	})
}
