package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// # Exactly-once delivery
//
// The sink collects batches in a transaction until it answers Cut: everything that it has accepted is acknowledged.
// commit then commits it with the position, which is in Kafka from then on (K). The checkpoint (C) is a copy of K, for a
// change to at-least-once delivery, and the slot (S) is told after K. So S and C are never ahead of K.
//
// A start takes the slot or lock, fences earlier relays, reads K, and streams from there: whatever was published behind K
// was aborted by the fence. K may be within a transaction of the database, which cdc.Part describes.
//
// Whatever makes it uncertain whether a transaction was committed ends the attempt with cdc.ErrRewind. The next attempt
// starts in the same way as another process would.

func (r *Relay) exactlyOnce() bool { return r.Committer != nil }

// commit commits the position when the sink asks for it.
func (r *Relay) commit(ctx context.Context) {
	if !r.exactlyOnce() {
		return
	}
	for {
		select {
		case <-r.cut:
		case <-ctx.Done():
			return
		}
		if err := r.commitOnce(ctx); err != nil {
			if ctx.Err() == nil {
				r.fail(err)
			}
			return
		}
	}
}

// commitOnce commits all batches that were acknowledged; nothing else was sent.
func (r *Relay) commitOnce(ctx context.Context) error {
	seq, lastID := r.window.durable()
	c := *r.checkpoint.Load()
	c.Source = r.identity(seq)
	if seq > r.saved.Load() {
		c.Progress = r.Source.Progress(seq)
	}
	c.SavedAt = time.Now()
	c.LastEventID = cmp.Or(lastID, c.LastEventID)
	if err := r.Committer.Commit(ctx, c); err != nil {
		r.metrics.checkpointErrors.Inc()
		return err
	}
	r.checkpoint.Store(&c) // before Confirm: a reconnect compares it with the slot
	r.metrics.lastCheckpoint.Set(float64(c.SavedAt.UnixMilli()) / 1e3)
	r.Source.Confirm(seq)
	r.saved.Store(seq)
	r.window.saved(seq)
	signal(r.committed)
	return nil
}

// copyAway reports whether err only says that the store is away or its content damaged, which is no more than a copy of the
// position.
func (r *Relay) copyAway(err error) bool {
	if !r.exactlyOnce() || errors.Is(err, cdc.ErrStandby) {
		return false
	}
	stop, stops := errors.AsType[*cdc.StopError](err)
	return !stops || stop.Reason == cdc.UnusableCheckpoint
}

// resume returns the position that counts. If the checkpoint could not be loaded, that is only the one in Kafka, unless
// at-least-once delivery has superseded it.
func (r *Relay) resume(ctx context.Context, id cdc.Source, stored cdc.Checkpoint, found bool, away error) (cdc.Checkpoint, bool, error) {
	if h, ok := r.Checkpointer.(Handover); ok && !r.exactlyOnce() {
		return h.Resume(ctx, id, stored, found)
	}
	if !r.exactlyOnce() {
		return stored, found, nil
	}
	c, found, err := r.settle(ctx, id, Positions{Topic: r.opts.PositionTopic, ExactlyOnce: true, Stored: stored, Found: found, Away: away})
	if err == nil && away != nil {
		r.log.Warn("checkpoint not loaded; the position in Kafka counts", "error", away)
	}
	return c, found, err
}

// settle fences earlier relays, reads the position in Kafka, and returns the one that counts.
//
// An earlier relay may have had another transactional ID, which its last position has. A transaction that it has left open
// would hide the barrier until Kafka aborts it, so that position is read first, without a barrier.
func (r *Relay) settle(ctx context.Context, id cdc.Source, p Positions) (cdc.Checkpoint, bool, error) {
	fence := r.fence(id, "")
	readable, _, _ := r.Committer.Newest(ctx) // an error comes again
	if !readable.Source.Same(id) {            // it is refused below, and its relay may be a healthy one
		readable = cdc.Checkpoint{}
	}
	earlier := EarlierFences(fence, id, p.Stored, readable)
	for {
		r.Sink.Kill()
		r.Sink.Reset()
		if err := r.Sink.Open(ctx, fence, earlier...); err != nil {
			return cdc.Checkpoint{}, false, cdc.About(cdc.OnKafka, err)
		}
		var err error
		if p.Last, p.Committed, err = r.Committer.Last(ctx); err != nil {
			return cdc.Checkpoint{}, false, cdc.About(cdc.OnKafka, fmt.Errorf("read the position in Kafka: %w", err))
		}
		if last := p.Last; p.Committed && last.Source.Same(id) && last.Fence != fence && !slices.Contains(earlier, last.Fence) { // its relay may still be there
			earlier = append(earlier, last.Fence)
			continue
		}
		return p.Newest(id)
	}
}

// EarlierFences returns the transactional IDs, other than fence, under which the relays published that stored these checkpoints of id. On
// MySQL and MariaDB a relay may have had another source.mysql.id, or none.
func EarlierFences(fence string, id cdc.Source, stored ...cdc.Checkpoint) (earlier []string) {
	for i := range stored {
		c := &stored[i]
		if ours(c, id) && c.Fence != "" && c.Fence != fence && !slices.Contains(earlier, c.Fence) {
			earlier = append(earlier, c.Fence)
		}
	}
	return earlier
}

// ours reports whether c may be of id: on MySQL and MariaDB source.mysql.id may have been another one, or none.
func ours(c *cdc.Checkpoint, id cdc.Source) bool {
	return c.Source.Same(id) || id.Slot == "" && c.Source.Slot == "" && c.Source.Database == id.Database
}

// abortTimeout limits an abort at the end of a run.
const abortTimeout = 5 * time.Second

// abort ends the transaction that a run which could not drain leaves open, because consumers of committed records wait at
// it until Kafka's timeout. The slot or lock is still held, so that no successor is fenced. A rewind has the same effect.
func (r *Relay) abort(ctx context.Context, cause error) {
	if !r.exactlyOnce() || errors.Is(cause, cdc.ErrRewind) || !r.Status().Connected || r.saved.Load() >= r.window.state().sentEvents {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	r.Sink.Kill()
	if err := r.Committer.Abort(ctx, r.fence(*r.source.Load(), "")); err != nil {
		r.log.Warn("transaction not aborted: consumers of committed records wait until Kafka aborts it", "error", err)
	}
}

// rewind prepares the next attempt: what was read and is not committed is read again.
func (r *Relay) rewind() {
	r.saved.Store(r.window.reset())
	r.flush = make(chan struct{})
	r.finalSaveTried.Store(false)
	r.saverDone.Store(false)
	r.sourceStopped.Store(false)
	r.sinkFailed.Store(false)
	for _, c := range []chan struct{}{r.cut, r.committed, r.window.work, r.window.space, r.window.moved} {
		select {
		case <-c:
		default:
		}
	}
	r.fatal = make(chan error, 1)
	r.rewound = true
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
		"give each relay a kafka.transactional_id of its own, or leave it out")
}
