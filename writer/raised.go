package writer

import "slices"

// Source is an aggregate that raises events: a pointer to a struct that embeds [Raised]. For an aggregate that cannot
// embed it, call [Unit.Add] with its events, and clear them in [Unit.AfterCommit].
type Source interface{ raising() *Raised }

// Raised holds the events that an aggregate has raised, until the transaction that writes them is committed: an attempt
// that is rolled back loses nothing, and what was raised before it may be tracked in the next one. Embed it in the aggregate.
// Its zero value is ready. Do not copy an aggregate that is tracked: the copy belongs to the same unit, and no other takes it
// ([ErrStaleSource]). It is not safe for concurrent use.
type Raised struct {
	events []*Event // those that are not in unit
	before int      // so many it had raised when unit began to track it
	unit   *Unit    // where it is tracked
	stale  bool     // it raised events in a transaction that was not committed, or whose end is not known
}

func (r *Raised) raising() *Raised { return r }

// Raise adds events, in order. They are checked when they are appended.
func (r *Raised) Raise(events ...*Event) {
	if r.unit != nil {
		r.unit.add(r, events)
		return
	}
	r.events = append(r.events, events...)
}

// Events returns the events that are not committed, in order, and keeps them.
func (r *Raised) Events() []*Event {
	if r.unit != nil {
		return r.unit.by(r)
	}
	return slices.Clone(r.events)
}

// leave ends the tracking. The same function raises again in the next attempt what it raised in one that failed, so the
// aggregate is stale then.
func (r *Raised) leave(u *Unit, end outcome) {
	r.events, r.unit = u.by(r), nil
	r.stale = end == endUnknown || end == endRolledBack && len(r.events) > r.before
}
