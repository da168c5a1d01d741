package writer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
)

// order is an aggregate.
type order struct {
	writer.Raised

	id string
}

func (o *order) raise(types ...string) {
	for _, typ := range types {
		o.Raise(&writer.Event{AggregateType: "Order", AggregateID: o.id, Type: typ, Payload: []byte(`{}`)})
	}
}

// outcome is what a unit of work did.
type outcome struct {
	rows     string   // aggregate and type of each row
	hooks    []string // that were called
	handled  []error  // by WithHookErrors
	attempts int
}

// work is a unit of work with hooks that write down their calls.
type work func(ctx context.Context, tx transaction, u *writer.Unit) error

// run runs work and returns what it did.
func (w work) run(t *testing.T, db *database, s session, o ...writer.Option) (did outcome, err error) {
	t.Helper()
	return w.runIn(t.Context(), t, db, s, o...)
}

func (w work) runIn(ctx context.Context, t *testing.T, db *database, s session, o ...writer.Option) (did outcome, err error) {
	t.Helper()
	note := func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			did.hooks = append(did.hooks, name)
			return ctx.Err()
		}
	}
	err = s.run(ctx, func(ctx context.Context, tx transaction, u *writer.Unit) error {
		did.attempts++
		u.AfterCommit(note("committed"))
		u.AfterRollback(note("rolled back"))
		return w(ctx, tx, u)
	}, append(o, writer.WithHookErrors(func(_ context.Context, err error) { did.handled = append(did.handled, err) }))...)
	did.rows = written(t, db) //nolint:contextcheck // ctx may have ended
	return did, err
}

// written returns aggregate and type of each row, in the order of insertion.
func written(t *testing.T, db *database) string {
	t.Helper()
	var all []string
	rows := db.rows(t, "outbox")
	for i := range rows {
		all = append(all, rows[i].AggregateID+" "+rows[i].Type)
	}
	return strings.Join(all, ", ")
}

func (o outcome) require(t *testing.T, rows string, attempts int, hooks ...string) {
	t.Helper()
	if o.rows != rows || o.attempts != attempts || !slices.Equal(o.hooks, hooks) {
		t.Errorf("rows %q, %d attempts, hooks %q; want %q, %d, %q", o.rows, o.attempts, o.hooks, rows, attempts, hooks)
	}
}

func TestUnitOfWork(t *testing.T) {
	onEachWay(t, func(t *testing.T, db *database, w way) {
		for name, test := range map[string]func(*testing.T, *database, session){
			"committed": unitCommitted, "rolled back": unitRolledBack, "savepoint": unitSavepoint, "hooks": unitHooks,
			"by hand": unitByHand, "ended context": unitEndedContext, "panic": unitPanics,
		} {
			t.Run(name, func(t *testing.T) {
				db.clear(t, "outbox")
				test(t, db, w.open(t, db.name, "")) // pgx closes a connection whose context ends
			})
		}
	})
}

// Events have the order in which they were raised, over all aggregates.
func unitCommitted(t *testing.T, db *database, s session) {
	t.Helper()
	a, b := &order{id: "a"}, &order{id: "b"}
	a.raise("Placed")
	did, err := work(func(_ context.Context, _ transaction, u *writer.Unit) error {
		u.Track(a, b)
		b.raise("Placed", "Paid")
		u.Add(newEvent(1))
		a.raise("Paid")
		u.Track(a)
		return nil
	}).run(t, db, s)
	testenv.Must(t, err)
	did.require(t, "a Placed, b Placed, b Paid, o-1 OrderPlaced, a Paid", 1, "committed")
	if len(a.Events())+len(b.Events()) != 0 {
		t.Error("events were not cleared")
	}
	did, err = work(func(_ context.Context, _ transaction, u *writer.Unit) error { // an aggregate may be used again
		u.Track(a)
		a.raise("Sent")
		return nil
	}).run(t, db, s)
	testenv.Must(t, err)
	did.require(t, "a Placed, b Placed, b Paid, o-1 OrderPlaced, a Paid, a Sent", 1, "committed")
}

func unitRolledBack(t *testing.T, db *database, s session) {
	t.Helper()
	a, refused := &order{id: "a"}, errors.New("sold out")
	a.raise("Placed")
	place := func(result error) work {
		return func(ctx context.Context, tx transaction, u *writer.Unit) error {
			u.Track(a)
			if err := tx.Flush(ctx, u); err != nil {
				return err
			}
			return result
		}
	}
	did, err := place(refused).run(t, db, s)
	if !errors.Is(err, refused) || len(a.Events()) != 1 {
		t.Errorf("error %v, %d events are left", err, len(a.Events()))
	}
	did.require(t, "", 1, "rolled back")
	did, err = place(nil).run(t, db, s)
	testenv.Must(t, err)
	did.require(t, "a Placed", 1, "committed")
	did, err = work(func(_ context.Context, _ transaction, u *writer.Unit) error {
		u.Add(newEvent(1), &writer.Event{})
		return nil
	}).run(t, db, s)
	if !errors.Is(err, writer.ErrInvalidEvent) {
		t.Errorf("error %v", err)
	}
	did.require(t, "a Placed", 1, "rolled back")
}

// What was tracked, raised and hooked in a savepoint that is rolled back is forgotten, also when it was flushed there.
func unitSavepoint(t *testing.T, db *database, s session) {
	t.Helper()
	a, b := &order{id: "a"}, &order{id: "b"}
	did, err := work(func(ctx context.Context, tx transaction, u *writer.Unit) error {
		u.Track(a)
		a.raise("Placed")
		soldOut := errors.New("sold out")
		err := u.Savepoint(func() error {
			testenv.Must(t, tx.Exec(ctx, "SAVEPOINT gift"))
			u.Track(b)
			b.raise("Placed")
			a.raise("Wrapped")
			u.AfterCommit(func(context.Context) error { return errors.New("called") })
			testenv.Must(t, tx.Flush(ctx, u))
			testenv.Must(t, tx.Exec(ctx, "ROLLBACK TO SAVEPOINT gift"))
			return soldOut
		})
		if !errors.Is(err, soldOut) {
			t.Errorf("error %v", err)
		}
		a.raise("Paid")
		return nil
	}).run(t, db, s)
	testenv.Must(t, err)
	did.require(t, "a Placed, a Paid", 1, "committed")
	if did.handled != nil {
		t.Errorf("hooks failed: %v", did.handled)
	}
	did, err = work(func(_ context.Context, _ transaction, u *writer.Unit) error {
		u.Track(b)
		return nil
	}).run(t, db, s)
	if !errors.Is(err, writer.ErrStaleSource) || !strings.Contains(err.Error(), "*writer_test.order") {
		t.Errorf("error %v", err)
	}
	did.require(t, "a Placed, a Paid", 1, "rolled back")
}

// Errors and panics of hooks go to the handler, and the others are called.
func unitHooks(t *testing.T, db *database, s session) {
	t.Helper()
	failed := errors.New("no mail")
	did, err := work(func(_ context.Context, _ transaction, u *writer.Unit) error {
		u.AfterCommit(func(context.Context) error { return failed })
		u.AfterCommit(func(context.Context) error { panic(failed) })
		u.AfterCommit(func(context.Context) error { panic("no stamp") })
		u.AfterCommit(func(context.Context) error { u.Add(newEvent(1)); return nil })
		return nil
	}).run(t, db, s)
	testenv.Must(t, err)
	did.require(t, "", 1, "committed")
	if h := did.handled; len(h) != 4 || !errors.Is(h[0], failed) || !errors.Is(h[1], failed) || !strings.Contains(h[1].Error(), "unit_test.go") ||
		!strings.Contains(h[2].Error(), "no stamp") || !strings.Contains(h[3].Error(), "has ended") {
		t.Errorf("handled %v", h)
	}
}

// Flush and End serve a transaction that Run did not begin.
func unitByHand(t *testing.T, db *database, s session) {
	t.Helper()
	var did outcome
	events, err := writer.New(writer.Postgres, writer.WithHookErrors(func(_ context.Context, err error) { did.handled = append(did.handled, err) }))
	testenv.Must(t, err)
	u := events.NewUnit()
	u.AfterCommit(func(context.Context) error { did.hooks = append(did.hooks, "committed"); return nil })
	a, tx := &order{id: "a"}, s.begin(t)
	u.Track(a)
	a.raise("Placed")
	testenv.Must(t, tx.Flush(t.Context(), u))
	a.raise("Forgotten")
	err = writer.CommitError(t.Context(), tx.Commit(t.Context()))
	u.End(t.Context(), err)
	u.End(t.Context(), errors.New("the first End counts"))
	testenv.Must(t, err)
	did.rows = written(t, db)
	did.require(t, "a Placed", 0, "committed")
	if left := a.Events(); len(left) != 1 || left[0].Type != "Forgotten" || len(did.handled) != 1 {
		t.Errorf("%v are left, handled %v", left, did.handled)
	}
	if err := tx.Flush(t.Context(), u); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("error %v", err)
	}
}

// Before the commit an ended context is a rollback, after which hooks get one that has not ended.
func unitEndedContext(t *testing.T, db *database, s session) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	did, err := work(func(ctx context.Context, tx transaction, u *writer.Unit) error {
		u.Add(newEvent(1))
		err := tx.Flush(ctx, u)
		cancel()
		return err
	}).runIn(ctx, t, db, s)
	var unknown *writer.CommitUnknownError
	if !errors.Is(err, context.Canceled) || errors.As(err, &unknown) {
		t.Errorf("error %v", err)
	}
	did.require(t, "", 1, "rolled back")
	if did.handled != nil {
		t.Errorf("hooks failed: %v", did.handled)
	}
}

func unitPanics(t *testing.T, db *database, s session) {
	t.Helper()
	a := &order{id: "a"}
	var did outcome
	func() {
		defer func() {
			if p := recover(); fmt.Sprint(p) != "sold out" {
				t.Errorf("panic %v", p)
			}
		}()
		_ = s.run(t.Context(), func(ctx context.Context, tx transaction, u *writer.Unit) error {
			u.AfterRollback(func(context.Context) error { did.hooks = append(did.hooks, "rolled back"); return nil })
			u.Track(a)
			a.raise("Placed")
			testenv.Must(t, tx.Flush(ctx, u))
			panic("sold out")
		})
	}()
	did.rows = written(t, db)
	did.require(t, "", 0, "rolled back")
}
