package relay

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// drain closes the window and waits until the batches given to the sink are durable, saved and confirmed. After a rejected record only
// the batches before it can be saved, and after a refused checkpoint none.
//
// Where the source has stopped, what it handed on before is given to the sink too: a person who moves the position past what stopped
// the relay, as the fix may say, must not skip what came before it. drain returns false if the next run publishes some of it.
func (a *attempt) drain(ctx context.Context, cause error) (complete bool) {
	finish, worthwhile := a.keeper.closing(cause)
	a.window.close(finish)
	close(a.flush)
	if !worthwhile {
		return false
	}
	timeout := a.opts.ShutdownTimeout
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	for {
		st := a.window.state()
		last, stuck := a.stuck()
		if a.keeper.drained(st, last, cause != nil || stuck) && (stuck || a.sinkFailed.Load() || !a.sourceStopped.Load() || !st.unsent) {
			return !st.unsent && !a.sinkFailed.Load()
		}
		if a.saverDone.Load() {
			return false
		}
		select {
		case err := <-a.fatal:
			a.log.Error("drain ended by an error", "error", err)
			return false
		case <-time.After(drainPoll):
		case <-ctx.Done():
			a.log.Warn("shutdown timeout: not everything in flight was acknowledged and saved; the next run publishes it again", "timeout", timeout.String(), "in_flight_events", st.events)
			return false
		}
	}
}

// undrained returns the cause of a stop whose drain was not complete, with a fix that skips nothing in flight. Only the source's fixes move
// the position.
func (a *attempt) undrained(cause error) error {
	stop, ok := errors.AsType[*cdc.StopError](cause)
	fix := cdc.Fix(cause)
	if !ok || fix == "" || stop.Class == cdc.ClassFenced || !a.sourceStopped.Load() {
		return cause
	}
	return cdc.Stop(stop.Class, stop.Reason, cause, "start it again, so that what was in flight is published; if it stops here again, "+fix)
}

// stuck is Letters.Stuck, and every batch if it is not.
func (a *attempt) stuck() (last uint64, stuck bool) {
	if a.Letters != nil {
		if last, stuck = a.Letters.Stuck(); stuck {
			return last, true
		}
	}
	return math.MaxUint64, false
}

const drainPoll = 5 * time.Millisecond
