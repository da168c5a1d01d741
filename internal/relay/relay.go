package relay

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Options are the limits and times of the pipeline. Every field must be set; config has the defaults.
type Options struct {
	// MaxEvents and MaxBytes limit the window; see window.
	MaxEvents, MaxBytes int
	// RetryInitial and RetryMax limit the pauses before a reconnect or a save is retried.
	RetryInitial, RetryMax time.Duration
	// StartupTimeout is how long a start waits for a server that is away; 0: without limit.
	StartupTimeout time.Duration
	// ShutdownTimeout limits the drain.
	ShutdownTimeout time.Duration
	// TransactionalID is the sink's; "": one derived from the source.
	TransactionalID string
	// PositionTopic is where the Committer commits positions; "" without one.
	PositionTopic string
	// UniqueSource says that no other binlog has the source's system ID, because it was configured.
	UniqueSource bool
	// Display returns a position as its database prints it, for the log.
	Display func(cdc.Position) string
	// Dropped counts an event that is not published because the configuration says so.
	Dropped func(reason string)
	// Problems are those at present, also of the stages. Nil: of the relay alone.
	Problems *cdc.Problems
	// Park keeps the process of a stopped relay running, not ready, because a crash loop would hide the reason.
	Park bool
}

// Stages are the parts that the pipeline connects. The relay kills the Sink and closes none of the others.
type Stages struct {
	Source       Source
	Router       Router
	Sink         Sink
	Checkpointer Checkpointer
	// Committer is nil for at-least-once delivery.
	Committer Committer
	// Letters and Maintainer may be nil.
	Letters    Letters
	Maintainer Maintainer
}

// Relay is one run of the pipeline. Use a new one for each run.
type Relay struct {
	Stages

	opts    Options
	log     *slog.Logger
	metrics *metrics
	window  *window
	health  health

	// spare keeps used Routeds for reuse. It is not a sync.Pool, which every garbage collection empties: Routeds are the
	// largest objects in memory.
	spare      chan *cdc.Routed
	sinkFailed atomic.Bool // the sink returned its final error: nothing more becomes durable

	// source is what the last Acquire returned: a promoted standby has another timeline.
	source atomic.Pointer[cdc.Source]
	// checkpoint is the last one claimed or saved. Only save writes it once the goroutines run; Acquire reads it on a
	// reconnect.
	checkpoint     atomic.Pointer[cdc.Checkpoint]
	saved          atomic.Uint64 // every batch up to here is durable, its position saved and confirmed
	sequence       uint64        // of the last save that was tried in this generation; only save uses it
	flush          chan struct{} // closed by drain: save now
	finalSaveTried atomic.Bool   // a save was tried after flush was closed
	saverDone      atomic.Bool   // save has ended: nothing more is saved
	sourceStopped  atomic.Bool   // the source hands on nothing more

	fatal chan error // capacity 1: the first error that ends the attempt

	// Of exactly-once delivery; see commit.go.
	cut       chan struct{} // capacity 1: everything sent is acknowledged
	committed chan struct{} // capacity 1: checkpoint has changed
	rewound   bool          // this is not the first attempt
	rewinds   rewinds
}

// New returns a Relay that has not started.
func New(opts Options, stages Stages, log *slog.Logger, reg prometheus.Registerer) *Relay {
	if opts.Problems == nil {
		opts.Problems = new(cdc.Problems)
	}
	r := &Relay{
		Stages: stages, opts: opts, log: log,
		window: newWindow(opts.MaxEvents, opts.MaxBytes),
		spare:  make(chan *cdc.Routed, maxSpare), flush: make(chan struct{}), fatal: make(chan error, 1),
		cut: make(chan struct{}, 1), committed: make(chan struct{}, 1),
	}
	if r.exactlyOnce() {
		r.window.releaseAtAck()
	}
	r.health.set(StateStarting, nil)
	r.metrics = newMetrics(reg, r)
	return r
}

// Run publishes as the leader, or stands by, until ctx ends or an error occurs that a retry cannot fix. In the first
// case it drains and returns nil, in the second it returns a [cdc.StopError]; with Park only after ctx has ended.
func (r *Relay) Run(ctx context.Context) error {
	err := r.run(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil
	}
	if err != nil {
		r.opts.Problems.Clear() // nothing is asked any more
		r.health.set(StateStopped, err)
		r.metrics.stop(err)
	}
	if err != nil && r.opts.Park && ctx.Err() == nil {
		r.health.set(StateParked, err)
		r.log.Error("parked: fix the cause and restart the relay", "error", err)
		<-ctx.Done()
	}
	return err
}

// run makes one attempt, and further ones where exactly-once delivery has to start again from the position in Kafka.
func (r *Relay) run(ctx context.Context) error {
	for retry := r.pauses(); ; {
		started := *r.checkpointOrNone()
		err := r.attempt(ctx)
		if !errors.Is(err, cdc.ErrRewind) {
			return err
		}
		if ctx.Err() != nil {
			return context.Canceled // the next run starts from there
		}
		if err := r.rewinds.check(err); err != nil {
			return err
		}
		r.metrics.reconnects.WithLabelValues("kafka").Inc()
		r.health.set(StateStarting, err)
		r.log.Warn("starting again from the position in Kafka", cdc.Repeats(), slog.Any("error", err),
			slog.String("committed", r.opts.Display(r.checkpointOrNone().Progress.Position)))
		if r.checkpointOrNone().Progress != started.Progress {
			retry.Reset()
		}
		if err := sleep(ctx, retry.next()); err != nil {
			return err
		}
		r.rewind()
	}
}

// attempt starts the goroutines that doc.go lists, waits for the end and drains.
func (r *Relay) attempt(ctx context.Context) error {
	defer r.Source.Release(ctx) // last, and also when the start failed: a parked relay must not hold the slot
	defer r.Sink.Kill()
	if err := r.start(ctx); err != nil {
		return err
	}

	stages, stopStages := context.WithCancel(context.WithoutCancel(ctx))
	reading, stopReading := context.WithCancel(context.WithoutCancel(ctx))
	var running, tailing sync.WaitGroup
	tailing.Go(func() { r.tail(reading) })
	tailing.Go(func() { r.maintain(reading) })
	running.Go(func() { r.resolveLetters(stages) })
	running.Go(func() { r.route(stages) })
	running.Go(func() { r.acknowledge(stages) })
	running.Go(func() { r.save(stages) })
	running.Go(func() { r.commit(stages) })
	running.Go(func() { r.watch(stages) })

	err := r.waitForEnd(ctx)
	r.health.set(StateStopping, err)
	r.noteAltered(err)
	if !r.drain(ctx, err) {
		err = r.undrained(err)
	}
	stopStages()
	running.Wait()
	r.saveLast(ctx, err)
	r.abort(ctx, err)
	stopReading() // before the source disconnects, it reports the last confirmed position
	tailing.Wait()
	return err
}

// maintain looks after the tables of the source.
func (r *Relay) maintain(ctx context.Context) {
	if r.Maintainer != nil {
		r.Maintainer.Run(ctx)
	}
}

// resolveLetters resolves dead letters.
func (r *Relay) resolveLetters(ctx context.Context) {
	if r.Letters != nil {
		r.Letters.Run(ctx, func() cdc.Progress { return r.checkpointOrNone().Progress })
	}
}

// loadLetters reads which dead letters there are.
func (r *Relay) loadLetters(ctx context.Context, c *cdc.Checkpoint) error {
	if r.Letters == nil {
		return nil
	}
	return cdc.About(cdc.OnKafka, r.Letters.Load(ctx, c.Source, c.Progress))
}

// waitForEnd returns nil when ctx ends, or the error that ends the run.
func (r *Relay) waitForEnd(ctx context.Context) error {
	select {
	case <-ctx.Done():
		r.log.Info("stopping: draining records in flight", "timeout", r.opts.ShutdownTimeout.String())
		return nil
	case err := <-r.fatal:
		return err
	}
}

// checkpointOrNone is the last checkpoint claimed, saved or committed.
func (r *Relay) checkpointOrNone() *cdc.Checkpoint {
	if c := r.checkpoint.Load(); c != nil {
		return c
	}
	return new(cdc.Checkpoint)
}

// fail ends the attempt with err, unless another error was first.
func (r *Relay) fail(err error) {
	select {
	case r.fatal <- err:
	default:
	}
}
