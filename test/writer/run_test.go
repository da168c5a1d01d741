package writer_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
)

func TestRunAgainAfterAConflict(t *testing.T) { onEach(t, runAgainAfterAConflict) }

// A row changed since the transaction's snapshot, or is locked. An aggregate that raised events in the attempt that failed is refused; one that
// raised them before is not.
func runAgainAfterAConflict(t *testing.T, e engine) {
	t.Helper()
	db := newDatabase(t, e, plain("outbox"))
	db.exec(t, "CREATE TABLE stock (id int PRIMARY KEY, n int)", "INSERT INTO stock VALUES (1, 0)")
	for _, w := range e.ways() {
		for name, c := range db.speech().conflicts {
			t.Run(w.name+"/"+name, func(t *testing.T) {
				db.clear(t, "outbox")
				kept, other := &order{id: "kept"}, w.open(t, db.name, "").begin(t)
				conflicting := func(source func() *order, attempts *int) work {
					return func(ctx context.Context, tx transaction, u *writer.Unit) error {
						o := source()
						u.Track(o)
						if len(o.Events()) == 0 {
							o.raise("Placed")
						}
						for _, s := range append(c.before, "SELECT n FROM stock") {
							testenv.Must(t, tx.Exec(ctx, s))
						}
						if *attempts++; *attempts == 1 {
							testenv.Must(t, other.Exec(ctx, "UPDATE stock SET n = n + 1"))
						}
						if c.commit == (*attempts == 1) { // an open transaction ends before the second attempt
							testenv.Must(t, other.Commit(ctx))
						}
						return tx.Exec(ctx, "UPDATE stock SET n = n + 1")
					}
				}
				var attempts int
				did, err := conflicting(func() *order { return &order{id: "new"} }, &attempts).run(t, db, w.open(t, db.name, ""), writer.WithAttempts(2))
				testenv.Must(t, err)
				did.require(t, "new Placed", 2, "rolled back", "committed")
				if !c.commit {
					return // a lock takes a second to fail
				}
				attempts, other = 0, w.open(t, db.name, "").begin(t)
				did, err = conflicting(func() *order { return kept }, &attempts).run(t, db, w.open(t, db.name, ""))
				if !errors.Is(err, writer.ErrStaleSource) {
					t.Errorf("error %v", err)
				}
				did.require(t, "new Placed", 2, "rolled back", "rolled back")
				made := &order{id: "made"}
				made.raise("Placed")
				attempts, other = 0, w.open(t, db.name, "").begin(t)
				did, err = conflicting(func() *order { return made }, &attempts).run(t, db, w.open(t, db.name, ""))
				testenv.Must(t, err)
				did.require(t, "new Placed, made Placed", 2, "rolled back", "committed")
			})
		}
	}
}

// Errors of COMMIT itself after which PostgreSQL has rolled back.
func TestCommitRolledBack(t *testing.T) {
	db := newDatabase(t, pg, plain("outbox"))
	db.exec(t, "CREATE TABLE goods (id int PRIMARY KEY)", "CREATE TABLE stock (id int REFERENCES goods DEFERRABLE INITIALLY DEFERRED)",
		"CREATE TABLE pair (id int, n int)", "INSERT INTO pair VALUES (1, 0), (2, 0)")
	for _, w := range pg.ways() {
		for name, c := range map[string]struct {
			before, other string
			failed        bool // the function does not return a statement's error
			want          string
			attempts      int
			rows          string
		}{
			"deferred constraint":   {before: "INSERT INTO stock VALUES (7)", want: "foreign key", attempts: 1},
			"failed before":         {before: "SELECT 1/0", failed: true, want: "commit transaction", attempts: 1},
			"not serializable once": {before: "SELECT sum(n) FROM pair; UPDATE pair SET n = n + 1 WHERE id = 1", other: "UPDATE pair SET n = n + 1 WHERE id = 2", attempts: 2, rows: "o-1 OrderPlaced"},
		} {
			t.Run(w.name+"/"+name, func(t *testing.T) {
				db.clear(t, "outbox")
				other := w.open(t, db.name, "").begin(t)
				var attempts int
				observer := writer.WithObserver(func(ctx context.Context, _ []*writer.Event) {
					if attempts == 1 && c.other != "" { // between the last statement and COMMIT
						testenv.Must(t, other.Commit(ctx))
					}
				})
				did, err := work(func(ctx context.Context, tx transaction, u *writer.Unit) error {
					if attempts++; c.other != "" {
						testenv.Must(t, tx.Exec(ctx, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"))
					}
					for s := range strings.SplitSeq(c.before, "; ") {
						if err := tx.Exec(ctx, s); (err != nil) != c.failed {
							t.Fatal(err)
						}
					}
					if c.other != "" && attempts == 1 {
						testenv.Must(t, other.Exec(ctx, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"))
						testenv.Must(t, other.Exec(ctx, "SELECT sum(n) FROM pair"))
						testenv.Must(t, other.Exec(ctx, c.other))
					}
					if !c.failed {
						u.Add(newEvent(1))
					}
					return nil
				}).run(t, db, w.open(t, db.name, "", observer))
				var unknown *writer.CommitUnknownError
				if errors.As(err, &unknown) || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v", err)
				}
				hooks := []string{"rolled back", "committed"}
				if c.want != "" {
					hooks = hooks[:1]
				}
				did.require(t, c.rows, c.attempts, hooks...)
			})
		}
	}
}

// The connection is lost before COMMIT arrives, or before its answer does, or the context ends in between: nobody knows, so
// nothing is repeated and nothing is called.
func TestCommitWithoutAnAnswer(t *testing.T) {
	onEachWay(t, func(t *testing.T, db *database, w way) {
		proxy := testenv.Proxy(t, db.Addr())
		for name, c := range map[string]struct {
			rows           string
			answered, ends bool
		}{"COMMIT is lost": {}, "its answer is lost": {"a Placed", true, false}, "the context ends": {"a Placed", true, true}} {
			if c.ends && !strings.Contains(w.name, "pgx") {
				continue // the other drivers wait for the answer
			}
			t.Run(name, func(t *testing.T) {
				db.clear(t, "outbox")
				testenv.Must(t, proxy.Restore())
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s, a := w.openThrough(t, proxy, db.name), &order{id: "a"}
				var interference sync.WaitGroup
				did, err := work(func(_ context.Context, _ transaction, u *writer.Unit) error {
					u.Track(a)
					a.raise("Placed")
					held := proxy.HoldBack(t, func(data []byte) bool { return bytes.Contains(bytes.ToLower(data), []byte("commit")) })
					interference.Go(func() { //nolint:contextcheck // it ends ctx
						<-held.Caught()
						if !c.answered {
							proxy.Swallow(testenv.Requests) // or it may arrive while the connection is closed
						} else {
							proxy.Swallow(testenv.Responses)
							testenv.Must(t, held.Release(t.Context()))
						}
						if c.ends {
							cancel()
							return
						}
						proxy.Cut()
					})
					return nil
				}).runIn(ctx, t, db, s)
				interference.Wait()
				proxy.Heal(t.Context())
				var unknown *writer.CommitUnknownError
				if !errors.As(err, &unknown) || writer.Retryable(err) {
					t.Errorf("error %v", err)
				}
				did.require(t, c.rows, 1)
				if len(a.Events()) != 1 {
					t.Error("events were cleared")
				}
			})
		}
	})
}

func TestRunNoticesAHiddenError(t *testing.T) { onEach(t, runNoticesAHiddenError) }

// The function hides the error of a statement after which the server has rolled back, and goes on. Nothing of the transaction is written, no
// event is, and Run fails.
func runNoticesAHiddenError(t *testing.T, e engine) {
	t.Helper()
	db := newDatabase(t, e, plain("outbox"))
	db.exec(t, "CREATE TABLE stock (id int PRIMARY KEY, n int)", "INSERT INTO stock VALUES (1, 0), (2, 0), (3, 0), (4, 0), (5, 0)")
	conflicts := map[string]conflict{}
	for name, c := range db.speech().conflicts {
		if c.commit { // a lock that is not free in time undoes only the statement
			conflicts[name] = c
		}
	}
	if e != engine(pg) {
		conflicts["deadlock"] = conflict{}
	}
	for _, w := range e.ways() {
		for name, c := range conflicts {
			t.Run(w.name+"/"+name, func(t *testing.T) {
				db.clear(t, "outbox")
				db.exec(t, "UPDATE stock SET n = 0")
				other := w.open(t, db.name, "").begin(t)
				did, err := work(func(ctx context.Context, tx transaction, u *writer.Unit) error {
					u.Add(newEvent(1))
					for _, s := range append(c.before, "SELECT n FROM stock") {
						testenv.Must(t, tx.Exec(ctx, s))
					}
					testenv.Must(t, other.Exec(ctx, "UPDATE stock SET n = 1 WHERE id > 1"))
					testenv.Must(t, tx.Exec(ctx, "UPDATE stock SET n = 2 WHERE id = 1"))
					var both sync.WaitGroup
					if c.commit {
						testenv.Must(t, other.Commit(ctx))
					} else {
						both.Go(func() { _ = other.Exec(ctx, "UPDATE stock SET n = 1 WHERE id = 1") })
					}
					if err := tx.Exec(ctx, "UPDATE stock SET n = 2 WHERE id = 2"); !writer.Retryable(err) {
						t.Errorf("no conflict: %v", err)
					}
					both.Wait()
					return nil
				}).run(t, db, w.open(t, db.name, ""))
				if !c.commit {
					testenv.Must(t, other.Rollback(t.Context()))
				}
				if err == nil || e != engine(pg) && !errors.Is(err, writer.ErrNoTransaction) {
					t.Errorf("error %v", err)
				}
				did.require(t, "", 1, "rolled back")
				if n := count(t, db, "stock WHERE n = 2"); n != 0 {
					t.Errorf("%d rows of the transaction are there", n)
				}
			})
		}
	}
}
