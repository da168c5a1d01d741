package relay

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// attempt is one start with all that follows, until its end. Its window, channels and flags are made with it and end with it. The one
// before it has ended: no goroutine of that one runs any more, and the sink was killed.
type attempt struct {
	*Relay

	keeper keeper
	window *window
	again  bool // not the first attempt, or it has stood by: it waits for servers without limit

	savedSeq       atomic.Uint64 // every batch up to here is durable, its position saved and confirmed; only the keeper writes it
	sequence       uint64        // of the last save that was tried; only saveLoop uses it, and finish after it
	flush          chan struct{} // closed by drain: save now
	finalSaveTried atomic.Bool   // by saveLoop: a save was tried after flush was closed
	saverDone      atomic.Bool   // by saveLoop: it has ended, and nothing more is saved
	settled        settled       // conditions that the next checkpoint has
	sourceStopped  atomic.Bool   // by tail: the source hands on nothing more
	sinkFailed     atomic.Bool   // by acknowledge: the sink returned its final error, and nothing more becomes durable

	standstill standstill

	cut   chan struct{} // capacity 1: everything sent is acknowledged, and the sink waits for the commit of exactly-once delivery
	fatal chan error    // capacity 1: the first error that ends the attempt
}

// newAttempt returns an attempt whose first batch follows the number last. It chooses the kind of delivery.
func newAttempt(r *Relay, last uint64) *attempt {
	a := &attempt{
		Relay: r, window: newWindow(r.opts.MaxEvents, r.opts.MaxBytes, last),
		again: r.current.Load() != nil,
		flush: make(chan struct{}), cut: make(chan struct{}, 1), fatal: make(chan error, 1),
	}
	a.savedSeq.Store(last)
	if r.Committer == nil {
		a.keeper = &atLeastOnce{a}
	} else {
		a.keeper = newExactlyOnce(a)
	}
	return a
}

// run starts the goroutines that doc.go lists, waits for the end and drains.
func (a *attempt) run(ctx context.Context) error {
	defer a.Source.Release(ctx) // last, and also when the start failed: a parked relay must not hold the slot
	defer a.Sink.Kill()
	if err := a.start(ctx); err != nil {
		return err
	}

	stages, stopStages := context.WithCancel(context.WithoutCancel(ctx))
	reading, stopReading := context.WithCancel(context.WithoutCancel(ctx))
	var running, tailing sync.WaitGroup
	tailing.Go(func() { a.tail(reading) })
	tailing.Go(func() { a.maintain(reading) })
	running.Go(func() { a.resolveLetters(stages) })
	running.Go(func() { a.route(stages) })
	running.Go(func() { a.acknowledge(stages) })
	running.Go(func() { a.keep(stages) })
	running.Go(func() { a.watch(stages) })

	err := a.waitForEnd(ctx)
	a.health.set(StateStopping, err)
	a.noteAltered(err)
	if !a.drain(ctx, err) {
		err = a.undrained(err)
	}
	stopStages()
	running.Wait()
	a.health.stall(false)
	a.keeper.finish(ctx, err)
	stopReading() // before the source disconnects, it reports the last confirmed position
	tailing.Wait()
	if err == nil && !errors.Is(context.Cause(ctx), errFinished) {
		c := a.checkpointOrNone()
		a.log.Info("stopped", "saved", a.opts.Display(c.Progress.Position), "last_event", c.LastEventID, "events_not_saved", a.window.state().events)
	}
	return err
}

// keep keeps the positions.
func (a *attempt) keep(ctx context.Context) { a.keeper.keep(ctx) }

// maintain looks after the tables of the source.
func (a *attempt) maintain(ctx context.Context) {
	if a.Maintainer != nil {
		a.Maintainer.Run(ctx, a)
	}
}

// resolveLetters resolves dead letters.
func (a *attempt) resolveLetters(ctx context.Context) {
	if a.Letters == nil {
		return
	}
	if err := a.Letters.Run(ctx, func() cdc.Progress { return a.checkpointOrNone().Progress }); err != nil {
		a.fail(cdc.About(cdc.OnKafka, err))
	}
}

// loadLetters reads which dead letters there are.
func (a *attempt) loadLetters(ctx context.Context, c *cdc.Checkpoint) error {
	if a.Letters == nil {
		return nil
	}
	return cdc.About(cdc.OnKafka, a.Letters.Load(ctx, c.Source, c.Progress))
}

// errFinished is the cause of a context that ends because nothing is left to publish.
var errFinished = errors.New("nothing is left to publish")

// waitForEnd returns nil when ctx ends, or the error that ends the attempt.
func (a *attempt) waitForEnd(ctx context.Context) error {
	select {
	case <-ctx.Done():
		if !errors.Is(context.Cause(ctx), errFinished) {
			a.log.Info("stopping: draining records in flight", "timeout", a.opts.ShutdownTimeout.String())
		}
		return nil
	case err := <-a.fatal:
		return err
	}
}

// fail ends the attempt with err, unless another error was first.
func (a *attempt) fail(err error) {
	select {
	case a.fatal <- err:
	default:
	}
}
