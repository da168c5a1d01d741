package writer_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/writer"
)

// basket is an aggregate.
type basket struct {
	writer.Raised

	name string
}

func (b *basket) add(types ...string) {
	for _, typ := range types {
		b.Raise(&writer.Event{AggregateType: "Basket", AggregateID: b.name, Type: typ, Payload: []byte(`{}`)})
	}
}

// names returns aggregate and type of events.
func names(events []*writer.Event) (all []string) {
	for _, e := range events {
		all = append(all, e.AggregateID+" "+e.Type)
	}
	return all
}

func requireNames(t *testing.T, got []*writer.Event, want ...string) {
	t.Helper()
	if !slices.Equal(names(got), want) {
		t.Errorf("events %q, want %q", names(got), want)
	}
}

func newUnit(t *testing.T) *writer.Unit {
	t.Helper()
	return newWriter(t).NewUnit()
}

// flush flushes u into a slice.
func flush(t *testing.T, u *writer.Unit) (events []*writer.Event) {
	t.Helper()
	if err := u.FlushTo(func(e ...*writer.Event) error { events = e; return nil }); err != nil {
		t.Fatal(err)
	}
	return events
}

// What was flushed before a savepoint is flushed once; what was flushed in it and raised before it again.
func TestSavepointAndFlush(t *testing.T) {
	a, u := &basket{name: "a"}, newUnit(t)
	u.Track(a)
	a.add("1")
	requireNames(t, flush(t, u), "a 1")
	a.add("2")
	kept := u.Savepoint(func() error { a.add("3"); return nil })
	undone := u.Savepoint(func() error {
		a.add("4")
		requireNames(t, flush(t, u), "a 2", "a 3", "a 4")
		return io.EOF
	})
	if kept != nil || !errors.Is(undone, io.EOF) {
		t.Errorf("errors %v, %v", kept, undone)
	}
	func() {
		defer func() { _ = recover() }()
		_ = u.Savepoint(func() error { a.add("5"); panic("sold out") })
	}()
	a.add("6")
	requireNames(t, flush(t, u), "a 2", "a 3", "a 6")
	u.End(t.Context(), nil)
	requireNames(t, a.Events())
}

// A write that fails is not a flush.
func TestFlushAgain(t *testing.T) {
	u, full := newUnit(t), errors.New("disk full")
	u.Add(&writer.Event{AggregateID: "a", Type: "1"})
	if err := u.FlushTo(func(...*writer.Event) error { return full }); !errors.Is(err, full) {
		t.Errorf("error %v", err)
	}
	requireNames(t, flush(t, u), "a 1")
}

func TestStaleSources(t *testing.T) {
	for name, spoil := range map[string]func(u *writer.Unit, b *basket){
		"unknown": func(u *writer.Unit, b *basket) {
			u.Track(b)
			u.End(t.Context(), fmt.Errorf("wrapped: %w", &writer.CommitUnknownError{Err: io.EOF}))
		},
		"in another unit": func(u *writer.Unit, b *basket) { u.Track(b) },
		"a copy": func(u *writer.Unit, b *basket) {
			original := basket{name: "b"}
			u.Track(&original)
			*b = original
			u.End(t.Context(), nil)
			b.add("1")
		},
		"savepoint": func(u *writer.Unit, b *basket) {
			b.Raised = writer.Raised{}
			_ = u.Savepoint(func() error { u.Track(b); b.add("1"); return io.EOF })
		},
	} {
		b, u := &basket{name: "b"}, newUnit(t)
		b.add("1")
		spoil(newUnit(t), b)
		requireNames(t, b.Events(), "b 1")
		err := u.Savepoint(func() error {
			u.Track(b)
			return u.FlushTo(func(...*writer.Event) error { return nil })
		})
		if !errors.Is(err, writer.ErrStaleSource) || !strings.Contains(err.Error(), "a copy of") {
			t.Errorf("%s: error %v", name, err)
		}
		requireNames(t, flush(t, u))
	}
}

// What an aggregate raised before a savepoint that was rolled back is written by the next unit, once.
func TestSourceOfASavepoint(t *testing.T) {
	b, u := &basket{name: "b"}, newUnit(t)
	b.add("1")
	_ = newUnit(t).Savepoint(func() error { u.Track(b); return io.EOF })
	requireNames(t, b.Events(), "b 1")
	u.Track(b)
	requireNames(t, flush(t, u), "b 1")
	u.End(t.Context(), nil)
	requireNames(t, b.Events())
}

// A function that changes an aggregate in an attempt that is rolled back, and again in the next one, would write its events twice.
func TestSourceThatChangesInEachAttempt(t *testing.T) {
	for name, attempt := range map[string]func(u *writer.Unit, b *basket){
		"is tracked, then raises": func(u *writer.Unit, b *basket) { u.Track(b); b.add("1") },
		"raises, then is tracked": func(u *writer.Unit, b *basket) { b.add("1"); u.Track(b) },
		"raises in a savepoint that is rolled back": func(u *writer.Unit, b *basket) {
			u.Track(b)
			_ = u.Savepoint(func() error { b.add("1"); return io.EOF })
		},
	} {
		b, first, second := &basket{name: "b"}, newUnit(t), newUnit(t)
		attempt(first, b)
		first.End(t.Context(), io.EOF)
		b.add("between")
		attempt(second, b)
		if err := second.FlushTo(func(...*writer.Event) error { return nil }); !errors.Is(err, writer.ErrStaleSource) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A copy of an aggregate that is not tracked has events of its own.
func TestCopyOfASource(t *testing.T) {
	b := basket{name: "b"}
	for _, event := range []string{"1", "2", "3"} {
		b.add(event)
	}
	c := b
	b.add("4")
	c.add("5")
	requireNames(t, b.Events(), "b 1", "b 2", "b 3", "b 4")
}

// An event that is raised while others are written, by an interceptor, is written after them.
func TestRaisedInFlush(t *testing.T) {
	u := newUnit(t)
	u.Add(&writer.Event{AggregateID: "a", Type: "1"})
	var written []*writer.Event
	err := u.FlushTo(func(events ...*writer.Event) error {
		if written = append(written, events...); len(written) == 1 {
			u.Add(&writer.Event{AggregateID: "a", Type: "2"})
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	requireNames(t, written, "a 1", "a 2")
}

func TestMisuseOfAUnitPanics(t *testing.T) {
	ended := func() *writer.Unit { u := newUnit(t); u.End(t.Context(), nil); return u }
	hook := func(context.Context) error { return nil }
	for name, use := range map[string]func(){
		"track":          func() { ended().Track(&basket{}) },
		"add":            func() { ended().Add(&writer.Event{}) },
		"after commit":   func() { ended().AfterCommit(hook) },
		"after rollback": func() { ended().AfterRollback(hook) },
		"savepoint":      func() { _ = ended().Savepoint(nil) },
	} {
		func() {
			defer func() {
				err, _ := recover().(error)
				if err == nil || !strings.Contains(err.Error(), "has ended") {
					t.Errorf("%s: panic %v", name, err)
				}
			}()
			use()
		}()
	}
}

func TestCommitError(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx     context.Context
		err     error
		unknown bool
	}{
		{t.Context(), io.ErrUnexpectedEOF, true},
		{t.Context(), driver.ErrBadConn, true}, // lib/pq: also if the answer was lost
		{ended, context.Canceled, true},
		{ended, sql.ErrTxDone, false},
		{t.Context(), sql.ErrTxDone, true}, // the function committed or rolled back
		{t.Context(), state("40001"), false},
		{t.Context(), state("23503"), false},
		{t.Context(), state("57014"), false},
		{t.Context(), state("57P01"), true},
		{t.Context(), state("08006"), true},
		{t.Context(), state("40003"), true},
		{t.Context(), state("XX000"), true},
		{t.Context(), &number{1213}, false},
		{t.Context(), &number{3101}, false},
		{t.Context(), &number{1290}, false},
		{t.Context(), &number{1180}, true},
		{t.Context(), &number{1053}, true},
	} {
		err := writer.CommitError(c.ctx, c.err)
		var unknown *writer.CommitUnknownError
		if !errors.Is(err, c.err) || errors.As(err, &unknown) != c.unknown {
			t.Errorf("%v becomes %v", c.err, err)
		}
	}
	if err := writer.CommitError(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// Run ends when its context does between two attempts, and says why it wanted another.
func TestRunEndsBetweenAttempts(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	attempts := 0
	err := writer.Run(ctx, fake(t), newWriter(t, writer.WithAttempts(1000)), func(context.Context, *sql.Tx, *writer.Unit) error {
		attempts++
		cancel()
		return state("40001")
	})
	if attempts != 1 || !errors.Is(err, context.Canceled) || !writer.Retryable(err) {
		t.Errorf("%d attempts, error %v", attempts, err)
	}
}

// That the commit of another transaction is unknown says nothing about this one, which is rolled back.
func TestRunAfterACommitWithoutAnAnswer(t *testing.T) {
	called, lost := 0, &writer.CommitUnknownError{Err: io.EOF}
	err := writer.Run(t.Context(), fake(t), newWriter(t), func(_ context.Context, _ *sql.Tx, u *writer.Unit) error {
		u.AfterRollback(func(context.Context) error { called++; return nil })
		return fmt.Errorf("pay: %w", lost)
	})
	if called != 1 || !errors.Is(err, lost) {
		t.Errorf("called %d times, error %v", called, err)
	}
}

func TestRunOfAnotherDialect(t *testing.T) {
	if err := writer.Run(t.Context(), fake(t), newMySQL(t), nil); err == nil || !strings.Contains(err.Error(), "different dialects") {
		t.Errorf("error %v", err)
	}
}

// fake is a database without a server.
func fake(t *testing.T) writer.DB[*sql.Tx] {
	t.Helper()
	db := openShop()
	t.Cleanup(func() { _ = db.Close() })
	return writer.SQL(db, writer.Postgres)
}
