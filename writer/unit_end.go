package writer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// Savepoint calls fn, which works in a savepoint and rolls back to it if it fails. If fn returns an error or panics, the unit
// forgets what was tracked, raised, added and hooked in it, and Savepoint returns the error. Aggregates that were tracked in fn
// and raised events there are stale then: load them again. Those tracked before keep what changed in their fields.
func (u *Unit) Savepoint(fn func() error) error {
	u.mustBeOpen()
	raised, sources, committed, rolledBack, flushed, stale := len(u.raised), len(u.sources), len(u.committed), len(u.rolledBack), u.flushed, u.stale
	failed := true
	defer func() {
		if !failed {
			return
		}
		for _, r := range u.sources[sources:] {
			r.leave(u, endRolledBack)
		}
		u.raised, u.sources = u.raised[:raised], u.sources[:sources]
		u.committed, u.rolledBack = u.committed[:committed], u.rolledBack[:rolledBack]
		u.flushed, u.stale = flushed, stale
	}()
	err := fn()
	failed = err != nil
	return err
}

// End ends the unit after its transaction. If err is nil, the transaction was committed: the aggregates' events are cleared
// and the functions of AfterCommit called. Otherwise it was rolled back: aggregates that raised events in it are stale, and the
// functions of AfterRollback are called. After a [*CommitUnknownError], see [CommitError], all are stale and none is called.
//
// Each function is called, also if one before it fails or panics. They get ctx without its end, so one that waits needs a
// limit of its own. Only the first call of End has an effect.
//
// Events that were not flushed before a commit are not in the table: the handler of [WithHookErrors] is told so, and the
// aggregates keep theirs.
func (u *Unit) End(ctx context.Context, err error) {
	if u == nil || u.ended {
		return
	}
	u.ended = true
	end := outcomeOf(err)
	ctx = context.WithoutCancel(ctx)
	unflushed := len(u.raised) - u.flushed
	if err == nil {
		u.raised = u.raised[u.flushed:]
	}
	for _, r := range u.sources {
		r.leave(u, end)
	}
	if err == nil && unflushed > 0 {
		u.hookErrors(ctx, fmt.Errorf("end unit of work: %d events were not written: call Flush before the commit", unflushed))
	}
	for _, h := range u.hooksAfter(end) {
		if err := h.call(ctx); err != nil {
			u.hookErrors(ctx, err)
		}
	}
}

// outcome is how a transaction or savepoint ended.
type outcome int

const (
	endCommitted outcome = iota
	endRolledBack
	endUnknown // no answer to COMMIT came
)

func outcomeOf(err error) outcome {
	var lost *CommitUnknownError
	switch {
	case err == nil:
		return endCommitted
	case errors.As(err, &lost):
		return endUnknown
	default:
		return endRolledBack
	}
}

func (u *Unit) hooksAfter(end outcome) []hook {
	switch end {
	case endCommitted:
		return u.committed
	case endRolledBack:
		return u.rolledBack
	default:
		return nil
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
