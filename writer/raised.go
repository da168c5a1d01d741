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
	unit   *Unit    // where it is tracked
	raised bool     // events while unit tracks it, also if a savepoint has undone them
	stale  bool     // it raised events in a transaction that was not committed, or whose end is not known
	again  bool     // it was tracked in a transaction that was rolled back, with kept events
	kept   int
}

func (r *Raised) raising() *Raised { return r }

// Raise adds events, in order. They are checked when they are appended.
func (r *Raised) Raise(events ...*Event) {
	if r.unit != nil {
		r.raised = true
		r.unit.add(r, events)
		return
	}
	r.events = append(slices.Clip(r.events), events...) // a copy of the aggregate has the same array
}

// Events returns the events that are not committed, in order, and keeps them.
func (r *Raised) Events() []*Event {
	if r.unit != nil {
		return r.unit.by(r)
	}
	return slices.Clone(r.events)
}

// join begins the tracking. It reports false if the aggregate is tracked elsewhere, or is not as it was before an attempt that was rolled
// back: a function that raised events in it, or before it tracked the aggregate, raises them again in the next one.
func (r *Raised) join(u *Unit) bool {
	if r.unit != nil || r.stale || r.again && len(r.events) != r.kept {
		return false
	}
	before := r.events
	r.unit, r.events, r.raised = u, nil, false
	u.sources = append(u.sources, r)
	u.add(r, before)
	return true
}

// leave ends the tracking.
func (r *Raised) leave(u *Unit, end outcome) {
	r.events, r.unit = u.by(r), nil
	r.stale = end == endUnknown || end == endRolledBack && r.raised
	r.again, r.kept = end == endRolledBack, len(r.events)
}
