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
func (r *Relay) tail(ctx context.Context) {
	retry := r.pauses()
	for {
		started := time.Now()
		r.health.connected(true)
		err := r.Source.Run(ctx, r.window)
		r.health.connected(false)
		if ctx.Err() != nil || r.sourceStops(err) {
			return
		}
		r.interrupted(err)
		if time.Since(started) > r.opts.RetryMax || errors.Is(err, cdc.ErrHungUp) {
			retry.Reset()
		}
		if !r.reacquire(ctx, retry) {
			return
		}
	}
}

// sourceStops is stops for an error of the source. drain, which follows at once, is to know whose it is.
func (r *Relay) sourceStops(err error) bool {
	r.sourceStopped.Store(true)
	if r.stops(err) {
		return true
	}
	r.sourceStopped.Store(false)
	return false
}

func (r *Relay) interrupted(err error) {
	r.metrics.reconnects.WithLabelValues("source").Inc()
	r.health.failed(err)
	if !errors.Is(err, cdc.ErrHungUp) { // it is Kafka that is slow
		r.opts.Problems.Report(streamReporter, cdc.Problem{With: cdc.OnDatabase, Err: err})
	}
	r.log.Warn("source interrupted, retrying", cdc.Repeats(), slog.Any("error", err))
}

// supersededAfter is how long the slot or lease may be held before this relay concludes that another one took over. A
// connection of its own that was cut holds the slot until the server's wal_sender_timeout.
const supersededAfter = 20 * time.Second

// reacquire retries Acquire until this relay leads again. It returns false when the run ends first.
func (r *Relay) reacquire(ctx context.Context, retry *pauses) bool {
	for since := time.Now(); ; {
		if sleep(ctx, retry.next()) != nil {
			return false
		}
		id, _, err := r.Source.Acquire(ctx, r.lastCheckpoint)
		if err == nil {
			r.source.Store(&id)
			r.opts.Problems.Report(streamReporter)
			return ctx.Err() == nil
		}
		if !errors.Is(err, cdc.ErrStandby) {
			since = time.Now()
		}
		if time.Since(since) > supersededAfter || r.replaced(ctx, err) {
			err = cdc.Stop(cdc.ClassFenced, "superseded", fmt.Errorf("another relay took over while this one was disconnected: %w", err), "restart this one, to stand by")
			if r.exactlyOnce() { // it stands by
				r.fail(fmt.Errorf("%w: %w", cdc.ErrRewind, err))
				return false
			}
		}
		if ctx.Err() != nil || r.sourceStops(err) {
			return false
		}
		r.interrupted(err)
	}
}

// fencedTimeout limits the question to Kafka whether another relay has taken over.
const fencedTimeout = 10 * time.Second

// replaced reports whether err is about a position that another relay moved, which led for a while. With exactly-once
// delivery the next attempt finds out, from the position in Kafka. Otherwise the generation in the store says so, and for a slot that
// has moved also the fence in Kafka: the slot may be the only position.
func (r *Relay) replaced(ctx context.Context, err error) bool {
	stop, ok := errors.AsType[*cdc.StopError](err)
	if !ok || stop.Class != cdc.ClassPosition {
		return false
	}
	if r.exactlyOnce() {
		return stop.Reason != cdc.PublicationAltered // that is noted in Kafka, by an attempt which leads; see noteAltered
	}
	c, _, failed := r.Checkpointer.Load(ctx)
	if failed == nil && c.Generation > r.checkpoint.Load().Generation {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, fencedTimeout)
	defer cancel()
	return stop.Reason == cdc.SlotMoved && r.Sink.Fenced(ctx)
}

// lastCheckpoint loads the checkpoint for a reconnect. This process claimed or saved it, so the store, which may be
// away, is not asked.
func (r *Relay) lastCheckpoint(context.Context, cdc.Source) (cdc.Checkpoint, bool, error) {
	return *r.checkpoint.Load(), true, nil
}
