package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/idempotency"
	"github.com/cdc-relay/cdc-relay/inbox/parking"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
)

// onEachThatGoesOn runs a test on MySQL and MariaDB: in a deadlock they roll back the whole transaction, and take the next statement.
// PostgreSQL refuses it.
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

// Handlers that lock the same rows in different orders come to an end.
func TestDeadlocks(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		db.exec(t, "INSERT INTO stock VALUES (2, 0), (3, 0), (4, 0)")
		in, err := inbox.New(writer.SQL(db.conn, db.dialect), "c")
		testenv.Must(t, err)
		const handlers, each = 6, 25
		var all sync.WaitGroup
		for h := range handlers {
			all.Go(func() {
				random := rand.New(rand.NewPCG(uint64(h), 7))
				for i := range each {
					rows := random.Perm(4)
					_, err := in.Handle(t.Context(), message(fmt.Sprint(h, " ", i)), func(ctx context.Context, tx *sql.Tx, _ *writer.Unit) error {
						for _, row := range rows {
							if _, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE stock SET n = n + 1 WHERE id = %d", row+1)); err != nil {
								return err
							}
						}
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if n := db.count(t, fmt.Sprintf("stock WHERE n = %d", handlers*each)); n != 4 {
			t.Errorf("%d of 4 rows have every effect", n)
		}
	})
}

func TestAllStopsAfterADeadlock(t *testing.T) {
	onEachThatGoesOn(t, func(t *testing.T, db *database) {
		in, err := inbox.New(writer.SQL(db.conn, db.dialect), "c")
		testenv.Must(t, err)
		attempt := 0
		handle := inbox.All(
			func(ctx context.Context, tx *sql.Tx, _ *writer.Unit, _ *inbox.Message) error {
				if attempt++; attempt > 1 {
					return nil
				}
				return db.loseDeadlock(ctx, tx)
			},
			effect,
		)
		m := message("1")
		_, err = in.Handle(t.Context(), m, func(ctx context.Context, tx *sql.Tx, u *writer.Unit) error { return handle(ctx, tx, u, m) })
		testenv.Must(t, err)
		if n := db.count(t, "effects"); n != 1 || attempt != 2 {
			cdctest.Violation(t, kindOf(n), "%d effects after %d attempts", n, attempt)
		}
	})
}

// A handler that hides the error of a deadlock, and goes on, is noticed, also if another process has handled the message in between and
// its row is there. With autocommit=0 what the handler did after the deadlock is rolled back, so the effect happens once. The events of the
// transaction are not appended: they would be committed alone.
func TestHiddenDeadlock(t *testing.T) {
	type work func(ctx context.Context, tx *sql.Tx, u *writer.Unit, ms ...*inbox.Message) error
	m, behind := record("a", 1), record("b", 2)
	handlers := map[string]func(p parked[*sql.Tx], w work) error{
		"Handle": func(p parked[*sql.Tx], w work) error {
			_, err := p.in.Handle(t.Context(), m, func(ctx context.Context, tx *sql.Tx, u *writer.Unit) error { return w(ctx, tx, u, m) })
			return err
		},
		"HandleBatch": func(p parked[*sql.Tx], w work) error {
			_, err := p.in.HandleBatch(t.Context(), []*inbox.Message{m, behind}, func(ctx context.Context, tx *sql.Tx, u *writer.Unit, ms []*inbox.Message) error {
				return w(ctx, tx, u, ms...)
			})
			return err
		},
		"Redo": func(p parked[*sql.Tx], w work) error {
			row := p.first()
			if row == nil {
				return nil
			}
			_, err := p.Redo(t.Context(), row, func(ctx context.Context, tx *sql.Tx, u *writer.Unit) error { return w(ctx, tx, u, row.Message) })
			return err
		},
		"Do": func(p parked[*sql.Tx], w work) error {
			events, err := writer.New(p.db.Dialect())
			testenv.Must(t, err)
			keys, err := idempotency.New(p.db, events)
			testenv.Must(t, err)
			_, _, err = keys.Do(t.Context(), idempotency.Key{Scope: "a", Key: "1"}, [32]byte{}, func(ctx context.Context, tx *sql.Tx, u *writer.Unit) (*idempotency.Response, error) {
				return &idempotency.Response{Status: 201}, w(ctx, tx, u, m)
			})
			return err
		},
	}
	onEachThatGoesOn(t, func(t *testing.T, db *database) {
		option, e := db.withOutbox(t), new(ends)
		for _, c := range []struct{ autocommit, between bool }{{true, false}, {true, true}, {false, false}, {false, true}} {
			params := "autocommit=0"
			if c.autocommit {
				params = "autocommit=1"
			}
			pool, err := sql.Open("mysql", db.my.DSN(db.name, params))
			testenv.Must(t, err)
			access := writer.SQL(pool, db.dialect)
			in, err := inbox.New(access, "c", option)
			testenv.Must(t, err)
			shelf, err := parking.New(in)
			testenv.Must(t, err)
			p := parked[*sql.Tx]{shelf, t, in, access}
			for name, handle := range handlers {
				if name == "Redo" {
					p.park(m, true)
				}
				hidden := false
				var w work
				w = func(ctx context.Context, tx *sql.Tx, u *writer.Unit, ms ...*inbox.Message) error {
					if !hidden {
						hidden = true
						e.raise(u, m)
						if err := db.loseDeadlock(ctx, tx); !writer.Retryable(err) {
							t.Errorf("no deadlock: %v", err)
						}
						if c.between {
							testenv.Must(t, handle(p, w))
						}
					}
					var err error
					for _, m := range ms {
						err = errors.Join(err, effect(ctx, tx, nil, m))
					}
					return err
				}
				if err := handle(p, w); !errors.Is(err, writer.ErrNoTransaction) {
					t.Errorf("%+v, %s: %v", c, name, err)
				}
				if got, n := e.take(), db.count(t, "outbox"); got != "a1 rolled back" || n != 0 {
					t.Errorf("%+v, %s: ended with %q, %d events", c, name, got, n)
				}
				testenv.Must(t, handle(p, w))
				if n := db.count(t, "effects WHERE message = 'a1'"); n != 1 && !c.autocommit {
					cdctest.Violation(t, kindOf(n), "%+v, %s: %d effects", c, name, n)
				}
				db.exec(t, "DELETE FROM effects", "DELETE FROM inbox", "DELETE FROM inbox_parked", "DELETE FROM idempotency_keys")
			}
			testenv.Must(t, pool.Close())
		}
	})
}

// A handler that hides that its connection was closed has failed, and the database has not. A pool of one connection has no other one for
// a second look in the transaction.
func TestHiddenLossOfTheConnection(t *testing.T) {
	onEachThatGoesOn(t, func(t *testing.T, db *database) {
		ctx, cancel := context.WithTimeout(t.Context(), cdctest.Patience(10*time.Second))
		defer cancel()
		pool, err := sql.Open("mysql", db.my.DSN(db.name, ""))
		testenv.Must(t, err)
		t.Cleanup(func() { _ = pool.Close() })
		pool.SetMaxOpenConns(1)
		p := newParked(t, writer.SQL(pool, db.dialect), "c")
		p.park(record("a", 1), true)
		hides := func(ctx context.Context, tx *sql.Tx, _ *writer.Unit) error {
			_, _ = tx.ExecContext(ctx, db.killSelf())
			return nil
		}
		_, handle := p.in.Handle(ctx, message("1"), hides)
		_, redo := p.Redo(ctx, p.first(), hides)
		for name, err := range map[string]error{"Handle": handle, "Redo": redo} {
			if !errors.Is(err, writer.ErrNoTransaction) || errors.Is(err, inbox.ErrDatabase) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
