package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Options are the settings that bound and time the pipeline. Every field must be set; config has the defaults.
type Options struct {
	// MaxEvents and MaxBytes bound the window; see window.
	MaxEvents, MaxBytes int
	// RetryInitial and RetryMax bound the backoff between attempts at the source and at the store.
	RetryInitial, RetryMax time.Duration
	// StartupTimeout is how long a start waits for a server that is away; 0: for ever.
	StartupTimeout time.Duration
	// ShutdownTimeout bounds the drain after a soft stop.
	ShutdownTimeout time.Duration
	// Park keeps a stopped relay alive, not ready, until a person comes: a crash loop hides the reason.
	Park bool
}

// Stages are what the pipeline connects. The relay does not close them, except that it kills the Sink.
type Stages struct {
	Source       Source
	Router       Router
	Sink         Sink
	Checkpointer Checkpointer
}

// Relay is one run of the pipeline. Make a new one for each run.
type Relay struct {
	Stages

	opts    Options
	log     *slog.Logger
	metrics *metrics
	window  *window
	health  health

	// routed keeps a few for reuse. Not a sync.Pool: that one empties with every garbage collection, and
	// these are the largest things in memory.
	routed chan *cdc.Routed
	// checkpoint is the last one saved, or loaded; the saver's once the stages run, and then read
	// by Acquire on a reconnect.
	checkpoint atomic.Pointer[cdc.Checkpoint]
	saved      atomic.Uint64 // every batch up to here is durable, its position saved and confirmed
	lastID     string        // of the last event that is durable; the saver's
	sequence   uint64        // of the last save that was tried in this generation; the saver's
	hurry      chan struct{} // closed when a stop wants the position saved now
	parted     atomic.Bool   // a save was tried after hurry was closed
	unsaved    atomic.Bool   // the saver has ended: nothing more is saved
	fatal      chan error    // capacity 1: the first error that ends the run
	refused    atomic.Bool   // the sink gave its final error: nothing more becomes durable
}

// New returns a Relay that has not started.
func New(opts Options, stages Stages, log *slog.Logger, reg prometheus.Registerer) *Relay {
	r := &Relay{
		Stages: stages, opts: opts, log: log,
		window: newWindow(opts.MaxEvents, opts.MaxBytes),
		routed: make(chan *cdc.Routed, maxKept), hurry: make(chan struct{}), fatal: make(chan error, 1),
	}
	r.health.set(StateStarting, nil)
	r.metrics = newMetrics(reg, r)
	return r
}

// Run leads, or waits to lead, until ctx ends (then it drains and returns nil) or a person is needed
// (then it returns a [cdc.StopError], after ctx ended when Park is set).
func (r *Relay) Run(ctx context.Context) error {
	err := r.run(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil
	}
	if err != nil {
		r.health.set(StateStopped, err)
		r.metrics.stop(err)
	}
	if err != nil && r.opts.Park && ctx.Err() == nil {
		r.health.set(StateParked, err)
		r.log.Error("relay is parked: it does not try again by itself; fix the cause, then restart it", "error", err)
		<-ctx.Done()
	}
	return err
}

// run is the flow of doc.go, in its order.
func (r *Relay) run(ctx context.Context) error {
	defer r.Sink.Kill()
	defer r.Source.Release(ctx) // a start that fails must not keep the slot from others, least of all when parked
	if err := r.start(ctx); err != nil {
		return err
	}

	stages, stopStages := context.WithCancel(context.WithoutCancel(ctx))
	reading, stopReading := context.WithCancel(context.WithoutCancel(ctx))
	var running, tailing sync.WaitGroup
	tailing.Go(func() { r.tail(reading) })
	running.Go(func() { r.route(stages) })
	running.Go(func() { r.settle(stages) })
	running.Go(func() { r.save(stages) })
	running.Go(func() { r.watch(stages) })

	err := r.wait(ctx)
	r.health.set(StateStopping, err)
	r.drain(ctx, err)
	stopReading() // the source says farewell with the last confirmed position
	tailing.Wait()
	stopStages()
	running.Wait()
	return err
}

// wait returns nil when ctx ends, or the error that ends the run.
func (r *Relay) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		r.log.Info("stopping: draining what is in flight", "timeout", r.opts.ShutdownTimeout.String())
		return nil
	case err := <-r.fatal:
		return err
	}
}

// fail ends the run with err, unless another error was first.
func (r *Relay) fail(err error) {
	select {
	case r.fatal <- err:
	default:
	}
}

// tail runs attempts at the source until ctx ends.
func (r *Relay) tail(ctx context.Context) {
	retry := r.pauses()
	for {
		started := time.Now()
		r.health.connected(true)
		err := r.Source.Run(ctx, r.window)
		r.health.connected(false)
		if ctx.Err() != nil || r.stops(err) {
			return
		}
		r.interrupted(err)
		if time.Since(started) > r.opts.RetryMax {
			retry.Reset()
		}
		if !r.reacquire(ctx, retry) {
			return
		}
	}
}

// supersededAfter is how long another may hold what makes us the leader before we believe that it took
// over: our own connection, if it was cut, keeps the slot until the server's wal_sender_timeout.
const supersededAfter = 20 * time.Second

// reacquire tries to lead again until it does, and returns false when the run ends first.
func (r *Relay) reacquire(ctx context.Context, retry *pauses) bool {
	for since := time.Now(); ; {
		if sleep(ctx, retry.next()) != nil {
			return false
		}
		_, _, err := r.Source.Acquire(ctx, r.remembered)
		if err == nil {
			return ctx.Err() == nil
		}
		if ctx.Err() != nil || r.stops(err) {
			return false
		}
		if !errors.Is(err, cdc.ErrStandby) {
			since = time.Now()
		} else if time.Since(since) > supersededAfter {
			r.fail(cdc.Stop(cdc.ClassFenced, "superseded", fmt.Errorf("another relay took over while this one was cut off: %w", err), "start this one again, to stand by"))
			return false
		}
		r.interrupted(err)
	}
}

// stops ends the run on an error that only a person can fix. What worked once in this run is expected
// to work again (a password is rotated, an object is made anew), so errors of configuration are retried.
func (r *Relay) stops(err error) bool {
	stop, ok := errors.AsType[*cdc.StopError](err)
	if ok && stop.Class == cdc.ClassConfig || final(err) == nil {
		return false
	}
	r.fail(final(err))
	return true
}

// final returns the error that err ends the run with; nil if err may pass by itself.
func final(err error) error {
	if _, ok := errors.AsType[*cdc.StopError](err); ok {
		return err
	}
	if errors.Is(err, cdc.ErrFenced) {
		return cdc.Stop(cdc.ClassFenced, "fenced", err, "run only one relay with this checkpoint: stop one of them")
	}
	return nil
}

func (r *Relay) interrupted(err error) {
	r.metrics.reconnects.WithLabelValues("source").Inc()
	r.health.failed(err)
	r.log.Warn("source interrupted, trying again", "error", err)
}

// remembered is the checkpoint for a reconnect: claimed or saved by this process, which knows it better than a store
// that may be away.
func (r *Relay) remembered(context.Context) (cdc.Checkpoint, bool, error) {
	return *r.checkpoint.Load(), true, nil
}

// pauses are the pauses between attempts: they double from RetryInitial on and are at most RetryMax. Each is up to half
// shorter or longer, so that relays that lost the same server do not come back all at once.
type pauses struct {
	backoff.ExponentialBackOff

	longest time.Duration
}

func (r *Relay) pauses() *pauses {
	p := &pauses{ExponentialBackOff: *backoff.NewExponentialBackOff(), longest: r.opts.RetryMax}
	p.InitialInterval, p.MaxInterval, p.Multiplier = r.opts.RetryInitial, r.opts.RetryMax, 2
	p.Reset()
	return p
}

func (p *pauses) next() time.Duration { return min(p.NextBackOff(), p.longest) }

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
