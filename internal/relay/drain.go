package relay

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// drain closes the window, at the end of a transaction, and waits until the batches given to the sink are durable, saved
// and confirmed. After a rejected record only the batches before it can be saved, and after a refused checkpoint none.
//
// Exactly-once delivery does not finish a transaction of the database, because its position can be within one. Nothing is
// drained that can only be aborted. Nor is what the sink does not accept, because there may be no more dead letters.
//
// Where the source has stopped, what it handed on before is given to the sink too: the fix of the cause may move the position past all of
// that. drain returns false if the next run publishes some of it.
func (r *Relay) drain(ctx context.Context, cause error) (complete bool) {
	r.window.close(cause == nil && !r.exactlyOnce())
	close(r.flush)
	if r.exactlyOnce() && (errors.Is(cause, cdc.ErrRewind) || r.sinkFailed.Load()) {
		return false
	}
	timeout := r.opts.ShutdownTimeout
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	for {
		st := r.window.state()
		until := st.sent
		if r.sinkFailed.Load() {
			until = st.acked
		}
		last, stuck := r.stuck()
		done := r.saved.Load() >= min(until, last) && r.finalSaveTried.Load() && (cause != nil || stuck || st.oldestOffered.IsZero() && !st.open)
		if r.exactlyOnce() {
			until = st.sentEvents
			if r.source.Load().Fingerprint == cdc.Altered { // it is committed with what is open; see noteAltered
				until = st.sent
			}
			done = r.saved.Load() >= min(until, last)
		}
		if done && (stuck || r.sinkFailed.Load() || !r.sourceStopped.Load() || !st.unsent) {
			return !st.unsent && !r.sinkFailed.Load()
		}
		if r.saverDone.Load() {
			return false
		}
		select {
		case err := <-r.fatal:
			r.log.Error("drain ended by an error", "error", err)
			return false
		case <-time.After(drainPoll):
		case <-ctx.Done():
			r.log.Warn("shutdown timeout: not everything in flight was acknowledged and saved; the next run publishes it again", "timeout", timeout.String(), "in_flight_events", st.events)
			return false
		}
	}
}

// undrained returns the cause of a stop whose drain was not complete, with a fix that skips nothing in flight. Only the source's fixes move
// the position.
func (r *Relay) undrained(cause error) error {
	stop, ok := errors.AsType[*cdc.StopError](cause)
	fix := cdc.Fix(cause)
	if !ok || fix == "" || stop.Class == cdc.ClassFenced || !r.sourceStopped.Load() {
		return cause
	}
	return cdc.Stop(stop.Class, stop.Reason, cause, "start it again, so that what was in flight is published; if it stops here again, "+fix)
}

// stuck is Letters.Stuck, and every batch if it is not.
func (r *Relay) stuck() (last uint64, stuck bool) {
	if r.Letters != nil {
		if last, stuck = r.Letters.Stuck(); stuck {
			return last, true
		}
	}
	return math.MaxUint64, false
}

const drainPoll = 5 * time.Millisecond
