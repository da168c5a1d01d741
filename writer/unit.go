package writer

import (
	"context"
	"errors"
	"fmt"
)

// ErrStaleSource means that an aggregate raised events in a transaction or savepoint that was not committed, or is part of
// another unit of work, or a copy of one that was. Its fields may not be what the database has: load or make it inside the
// transaction, or raise its events before.
var ErrStaleSource = errors.New("the aggregate, or one that it is a copy of, is tracked in another unit of work or raised events in one that was rolled back: load or make it inside the transaction")

// errUnitEnded means that a unit of work was used after its end.
var errUnitEnded = errors.New("the unit of work has ended: use it only inside its transaction, and make another with NewUnit")

// errNilUnit means that a handler was called without a unit of work.
var errNilUnit = errors.New("the unit of work is nil: pass the one of the transaction, or make one with NewUnit")

// Unit collects the events of one transaction, in the order in which they are raised, and the functions to be called after
// it. Each attempt has a unit of its own. [Run] makes it; in a transaction that something else begins call [Writer.NewUnit],
// [Writer.Flush] as the last statement, and [Unit.End] after the commit or rollback.
//
// A Unit is not safe for concurrent use. Track, Add, AfterCommit, AfterRollback and Savepoint panic after the end, because
// nothing would write the event or call the function.
type Unit struct {
	raised     []raisedEvent
	sources    []*Raised
	committed  []hook
	rolledBack []hook
	flushed    int   // so many of raised are in the table
	stale      error // for Flush
	ended      bool
	hookErrors func(context.Context, error)
}

// raisedEvent is an event and, unless it was added, the aggregate that raised it.
type raisedEvent struct {
	by    *Raised
	event *Event
}

type hook func(context.Context) error

// NewUnit returns a unit of work for a transaction that is not begun by [Run]. Return the error of every statement there, see
// [Writer.Append]: only Run notices one that was ignored.
func (w *Writer) NewUnit() *Unit { return &Unit{hookErrors: w.hookErrors} }

// Track adds the events of aggregates to the unit: those that they have raised, and from now on those that they raise. An
// aggregate may be tracked twice. If one is stale, Flush returns [ErrStaleSource].
func (u *Unit) Track(sources ...Source) {
	u.mustBeOpen()
	for _, s := range sources {
		if r := s.raising(); r.unit != u && !r.join(u) {
			u.stale = fmt.Errorf("track %T: %w", s, ErrStaleSource)
		}
	}
}

// Add adds events that no tracked aggregate raises.
func (u *Unit) Add(events ...*Event) {
	u.mustBeOpen()
	u.add(nil, events)
}

// AfterCommit adds a function that End calls if the transaction was committed, in the order of the calls. It gets a context
// that does not end, and its error goes to the handler of [WithHookErrors].
func (u *Unit) AfterCommit(f func(context.Context) error) {
	u.mustBeOpen()
	u.committed = append(u.committed, f)
}

// AfterRollback adds a function that End calls if the transaction was rolled back, like [Unit.AfterCommit].
func (u *Unit) AfterRollback(f func(context.Context) error) {
	u.mustBeOpen()
	u.rolledBack = append(u.rolledBack, f)
}

// flush passes the events that were not flushed yet to write, in order.
func (u *Unit) flush(write func(events ...*Event) error) error {
	if u == nil {
		return fmt.Errorf("flush events: %w", errNilUnit)
	}
	if u.ended {
		return fmt.Errorf("flush events: %w", errUnitEnded)
	}
	if u.stale != nil {
		return u.stale
	}
	for u.flushed < len(u.raised) { // again if an interceptor has raised some
		events := u.unflushed()
		if err := write(events...); err != nil {
			return err
		}
		u.flushed += len(events)
	}
	return nil
}

// Flush appends the events of the unit in the order in which they were raised or added; those that an aggregate had raised
// before it was tracked have the place of Track. Call it as the last statement of the transaction: the relay publishes a
// key's events in the order in which they are inserted. A second Flush appends what was raised since the first.
//
// Besides the errors of [Writer.Append] it returns [ErrStaleSource], and an error after the unit's end, before it sends anything.
func (w *Writer) Flush(ctx context.Context, tx Tx, u *Unit) error {
	return u.flush(func(events ...*Event) error { return w.Append(ctx, tx, events...) })
}

func (u *Unit) mustBeOpen() {
	if u == nil {
		panic(errNilUnit)
	}
	if u.ended {
		panic(fmt.Errorf("use unit of work: %w", errUnitEnded))
	}
}

func (u *Unit) add(by *Raised, events []*Event) {
	for _, e := range events {
		u.raised = append(u.raised, raisedEvent{by: by, event: e})
	}
}

func (u *Unit) unflushed() (events []*Event) {
	for _, r := range u.raised[u.flushed:] {
		events = append(events, r.event)
	}
	return events
}

// by returns the events that an aggregate has raised.
func (u *Unit) by(r *Raised) (events []*Event) {
	for _, e := range u.raised {
		if e.by == r {
			events = append(events, e.event)
		}
	}
	return events
}
