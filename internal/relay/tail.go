package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// tail streams from the source into the window, and connects again after an error, until ctx ends.
func (a *attempt) tail(ctx context.Context) {
	retry := a.pauses()
	for {
		a.noteReading()
		err := a.Source.Run(ctx, a.window)
		lasted := a.noteFailure(err)
		if ctx.Err() != nil || a.endIfSourceFinal(err) {
			return
		}
		err = a.withStandstill(err)
		a.log.Warn("source interrupted, retrying", cdc.Repeats(), slog.Any("error", err))
		a.noteInterruption(err)
		if lasted > a.opts.RetryMax || errors.Is(err, cdc.ErrHungUp) {
			retry.Reset()
		}
		if !a.reacquire(ctx, retry) {
			return
		}
	}
}

// endIfSourceFinal is endIfFinal for an error of the source. drain, which follows at once, is to know whose it is.
func (a *attempt) endIfSourceFinal(err error) bool {
	a.sourceStopped.Store(true)
	if a.endIfFinal(err) {
		return true
	}
	a.sourceStopped.Store(false)
	return false
}

func (a *attempt) noteInterruption(err error) {
	a.metrics.sourceErrors.Inc()
	a.health.failed(err)
	if !errors.Is(err, cdc.ErrHungUp) { // it is Kafka that is slow
		a.opts.Problems.Report(streamReporter, cdc.Problem{With: cdc.OnDatabase, Err: err})
	}
}

// supersededAfter is how long the slot or lease may be held before this relay concludes that another one took over. A
// connection of its own that was cut holds the slot until the server's wal_sender_timeout.
const supersededAfter = 20 * time.Second

// reacquire retries Acquire until this relay leads again. It returns false when the attempt ends first.
func (a *attempt) reacquire(ctx context.Context, retry *pauses) bool {
	for since := time.Now(); ; {
		if cdc.Sleep(ctx, retry.next()) != nil {
			return false
		}
		id, _, err := a.Source.Acquire(ctx, a.lastCheckpoint)
		if err == nil {
			a.sourceID.Store(&id)
			return ctx.Err() == nil
		}
		if !errors.Is(err, cdc.ErrStandby) {
			since = time.Now()
		}
		if time.Since(since) > supersededAfter || a.replaced(ctx, err) {
			err = cdc.Stop(cdc.ClassFenced, "superseded", fmt.Errorf("another relay took over while this one was disconnected: %w", err), "restart this relay: it stands by then")
			if a.keeper.stepDown(err) {
				return false
			}
		}
		if ctx.Err() != nil || a.endIfSourceFinal(err) {
			return false
		}
		a.noteInterruption(err)
	}
}

// replaced reports whether err is about a position that another relay moved, which led for a while.
func (a *attempt) replaced(ctx context.Context, err error) bool {
	return cdc.ClassOf(err) == cdc.ClassPosition && a.keeper.replaced(ctx, cdc.ReasonOf(err))
}

// lastCheckpoint loads the checkpoint for a reconnect. This process claimed or saved it, so the store, which may be
// away, is not asked.
func (a *attempt) lastCheckpoint(context.Context, cdc.Source) (cdc.Checkpoint, bool, error) {
	return *a.checkpoint.Load(), true, nil
}
