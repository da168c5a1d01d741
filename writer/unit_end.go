package writer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// Mark is what a unit holds at a savepoint.
type Mark struct {
	unit                                            *Unit
	depth, number                                   int // the place in the unit's marks, and the number there
	raised, sources, committed, rolledBack, flushed int
	stale                                           error
}

// Mark returns what the unit holds now. Call it with SAVEPOINT.
func (u *Unit) Mark() Mark {
	u.marked++
	u.marks = append(u.marks, u.marked)
	return Mark{u, len(u.marks) - 1, u.marked, len(u.raised), len(u.sources), len(u.committed), len(u.rolledBack), u.flushed, u.stale}
}

// Restore forgets what was tracked, raised, added and hooked since the mark. Call it with ROLLBACK TO SAVEPOINT. Aggregates
// that were tracked since are stale: load them again. Those tracked before keep what changed in their fields. It panics if
// the mark is of another unit, or was made after one that has been restored since.
func (u *Unit) Restore(m Mark) {
	u.mustBeOpen()
	if m.unit != u || m.depth >= len(u.marks) || u.marks[m.depth] != m.number {
		panic(errors.New("restore unit of work: the mark is of another unit, or of a savepoint that was rolled back: restore one of its own"))
	}
	for _, r := range u.sources[m.sources:] {
		r.leave(u, false)
	}
	u.marks = u.marks[:m.depth+1]
	u.raised, u.sources = u.raised[:m.raised], u.sources[:m.sources]
	u.committed, u.rolledBack = u.committed[:m.committed], u.rolledBack[:m.rolledBack]
	u.flushed, u.stale = m.flushed, m.stale
}

// End ends the unit after its transaction. If err is nil, the transaction was committed: the aggregates' events are cleared
// and the functions of AfterCommit called. Otherwise it was rolled back: the aggregates are stale, and the functions of
// AfterRollback are called. After a [*CommitUnknownError], see [CommitError], none is called.
//
// Each function is called, also if one before it fails or panics. They get ctx without its end, so one that waits needs a
// limit of its own. Only the first call of End has an effect.
//
// Events that were not flushed before a commit are not in the table: the handler of [WithHookErrors] is told so, and the
// aggregates keep theirs.
func (u *Unit) End(ctx context.Context, err error) {
	if u.ended {
		return
	}
	u.ended = true
	ctx = context.WithoutCancel(ctx)
	unflushed := len(u.raised) - u.flushed
	if err == nil {
		u.raised = u.raised[u.flushed:]
	}
	for _, r := range u.sources {
		r.leave(u, err == nil)
	}
	if err == nil && unflushed > 0 {
		u.onHookError(ctx, fmt.Errorf("end unit of work: %d events were not written: call Flush before the commit", unflushed))
	}
	for _, h := range u.hooksAfter(err) {
		if err := h.call(ctx); err != nil {
			u.onHookError(ctx, err)
		}
	}
}

func (u *Unit) hooksAfter(err error) []hook {
	var unknown *CommitUnknownError
	switch {
	case err == nil:
		return u.committed
	case errors.As(err, &unknown):
		return nil
	default:
		return u.rolledBack
	}
}

// call turns a panic into an error.
func (h hook) call(ctx context.Context) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case error:
			err = fmt.Errorf("a function after the transaction panicked: %w\n%s", p, debug.Stack())
		default:
			err = fmt.Errorf("a function after the transaction panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return h(ctx)
}

func logHookError(ctx context.Context, err error) {
	slog.Default().ErrorContext(ctx, "a function after a transaction failed", "error", err)
}
