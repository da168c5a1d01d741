package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Options are the limits and times of the pipeline. config has the defaults.
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
	// LeftOut counts rows that the configuration of their table leaves out.
	LeftOut func(table string, rows int)
	// Conditions are those that may be settled; see [cdc.Checkpoint].
	Conditions []string
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

// Relay is one run of the pipeline. Use a new one for each run. It makes an attempt for each start, and keeps what lives longer than
// an attempt.
type Relay struct {
	Stages

	opts    Options
	log     *slog.Logger
	metrics *metrics
	health  health

	// spare keeps used Routeds for reuse. It is not a sync.Pool, which every garbage collection empties: Routeds are the
	// largest objects in memory.
	spare chan *cdc.Routed
	// sourceID is what the last Acquire returned: a promoted standby has another timeline.
	sourceID atomic.Pointer[cdc.Source]
	// checkpoint is the last one claimed, saved or committed. A start writes it, and then only the keeper; Acquire reads it on a
	// reconnect.
	checkpoint atomic.Pointer[cdc.Checkpoint]
	current    atomic.Pointer[attempt] // only runAttempts writes it
	rewinds    rewinds                 // only runAttempts and what it calls use it
}

// New returns a Relay that has not started.
func New(opts Options, stages Stages, log *slog.Logger, reg prometheus.Registerer) *Relay {
	if opts.Problems == nil {
		opts.Problems = new(cdc.Problems)
	}
	r := &Relay{Stages: stages, opts: opts, log: log, spare: make(chan *cdc.Routed, maxSpare)}
	r.current.Store(newAttempt(r, 0))
	r.health.set(StateStarting, nil)
	r.metrics = newMetrics(reg, r)
	return r
}

// Run publishes as the leader, or stands by, until ctx ends or an error occurs that a retry cannot fix. In the first
// case it drains and returns nil, in the second it returns a [cdc.StopError]; with Park only after ctx has ended.
func (r *Relay) Run(ctx context.Context) error {
	err := r.runAttempts(ctx)
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
		if store, ok := r.Checkpointer.(io.Closer); ok { // a file is locked until then, also for the repair that the error may ask for
			_ = store.Close()
		}
		<-ctx.Done()
	}
	return err
}

// RunUntil is Run with a source that comes to an end, when done is closed.
func (r *Relay) RunUntil(ctx context.Context, done <-chan struct{}) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-done:
			stop(errFinished)
		case <-ctx.Done():
		}
	}()
	return r.Run(ctx)
}

// runAttempts makes one attempt, and further ones where it has to start again from the stored position.
func (r *Relay) runAttempts(ctx context.Context) error {
	for retry := r.pauses(); ; {
		started, a := *r.checkpointOrNone(), r.current.Load()
		err := a.run(ctx)
		if !errors.Is(err, cdc.ErrRewind) {
			return err
		}
		if ctx.Err() != nil {
			return context.Canceled // the next process starts from there
		}
		if err := r.rewinds.check(err); err != nil {
			return err
		}
		r.metrics.kafkaErrors.Inc()
		r.health.set(StateStarting, err)
		r.log.Warn("starting again from the stored position", cdc.Repeats(), slog.Any("error", err),
			slog.String("committed", r.opts.Display(r.checkpointOrNone().Progress.Position)))
		if r.checkpointOrNone().Progress != started.Progress {
			retry.Reset()
		}
		if err := cdc.Sleep(ctx, retry.next()); err != nil {
			return err
		}
		r.Sink.Reset()
		r.current.Store(newAttempt(r, a.window.last())) // the source goes on counting
	}
}

// checkpointOrNone is the last checkpoint claimed, saved or committed.
func (r *Relay) checkpointOrNone() *cdc.Checkpoint {
	if c := r.checkpoint.Load(); c != nil {
		return c
	}
	return new(cdc.Checkpoint)
}

// rewinds counts those that a relay on another database could be the reason of.
type rewinds struct{ fenced []time.Time }

const (
	// fencedLimit rewinds within fencedInterval, while this relay had the slot or lock each time, are not a takeover.
	fencedLimit    = 3
	fencedInterval = time.Minute
)

// check returns the error that ends the run if the relay is fenced again and again although it leads.
func (r *rewinds) check(err error) error {
	if !errors.Is(err, cdc.ErrFenced) {
		return nil
	}
	now := time.Now()
	r.fenced = append(r.fenced, now)
	if n := len(r.fenced); n > fencedLimit {
		r.fenced = r.fenced[n-fencedLimit:]
	}
	if len(r.fenced) < fencedLimit || now.Sub(r.fenced[0]) > fencedInterval {
		return nil
	}
	return cdc.Stop(cdc.ClassFenced, "fenced", fmt.Errorf("fenced %d times within a minute while this relay led: another one uses its transactional ID for another database", fencedLimit),
		"give the relays of each database a kafka.transactional_id of their own, or leave it out")
}
