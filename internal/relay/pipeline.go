package relay

import (
	"cmp"
	"context"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// route takes batches in order through the router into the sink.
func (r *Relay) route(ctx context.Context) {
	for {
		b := r.window.take()
		if b == nil {
			select {
			case <-r.window.work:
				continue
			case <-ctx.Done():
				return
			}
		}
		if err := r.publish(ctx, b); err != nil {
			if ctx.Err() == nil {
				r.fail(err)
			}
			return
		}
	}
}

func (r *Relay) publish(ctx context.Context, b *cdc.Batch) error {
	routed := r.blank()
	routed.Reset(b)
	if err := r.Router.Route(b, routed); err != nil {
		return err
	}
	for _, d := range routed.Drops {
		r.metrics.dropped.WithLabelValues(d.Reason).Inc()
		attrs := []any{"table", b.Table.String(), "event_id", d.EventID, "reason", d.Reason}
		if d.Err != nil {
			attrs = append(attrs, "error", d.Err)
		}
		r.log.Warn("event not published, as configured", attrs...)
	}
	r.window.sent(routed) // before Send: the answer may come before it returns
	return r.Sink.Send(ctx, routed)
}

// settle takes the sink's answers.
func (r *Relay) settle(ctx context.Context) {
	var done []*cdc.Routed
	for {
		select {
		case d := <-r.Sink.Durable():
			if d.Err != nil {
				r.refused.Store(true)
				r.fail(d.Err)
				return
			}
			done = r.window.settle(d.First, d.Last, done[:0])
			for _, routed := range done {
				r.release(routed)
			}
			clear(done)
		case <-ctx.Done():
			return
		}
	}
}

const (
	// maxKept is how many Routeds are kept for reuse.
	maxKept = 64
	// maxScratch is the largest scratch that is kept: one huge row must not stay in memory for ever.
	maxScratch = 1 << 20
)

// blank returns a Routed to fill.
func (r *Relay) blank() *cdc.Routed {
	select {
	case routed := <-r.routed:
		return routed
	default:
		return new(cdc.Routed)
	}
}

func (r *Relay) release(routed *cdc.Routed) {
	routed.Batch.Release()
	routed.Batch = nil
	if cap(routed.Scratch) > maxScratch {
		return
	}
	select {
	case r.routed <- routed:
	default:
	}
}

// saveInterval is the least time between two saves: what becomes durable meanwhile goes into one.
const saveInterval = 50 * time.Millisecond

// saveTimeout bounds one save: while the store hangs, the source is told nothing.
const saveTimeout = 5 * time.Second

// saveAgain is how often a position that stands still is saved again: a store that lost it (a flush, a failover, a
// deleted file) has it back this soon, and a relay that was fenced while nothing happened notices. One small write
// in ten seconds costs neither store anything.
const saveAgain = 10 * time.Second

// save stores the durable prefix's position whenever it moved, every saveAgain, and at the end, and then confirms it
// to the source.
func (r *Relay) save(ctx context.Context) {
	defer r.unsaved.Store(true)
	retry := r.pauses()
	again := time.NewTicker(saveAgain)
	defer again.Stop()
	hurry := r.hurry
	for {
		select {
		case <-r.window.moved:
		case <-again.C:
		case <-hurry:
		case <-ctx.Done():
			return
		}
		if !r.saveNow(ctx, retry) {
			return
		}
		if r.parted.Load() {
			hurry = nil
		}
		retry.Reset()
		select { // what settles meanwhile goes into one save
		case <-time.After(saveInterval):
		case <-r.hurry:
		case <-ctx.Done():
			return
		}
	}
}

// saveNow saves until it has succeeded, and returns false if it never will.
func (r *Relay) saveNow(ctx context.Context, retry *pauses) bool {
	for {
		last := r.hurried()
		err := r.saveOnce(ctx)
		if last {
			r.parted.Store(true)
		}
		if err == nil || r.stops(err) {
			return err == nil
		}
		r.log.Warn("position not saved, trying again; publishing goes on", "error", err)
		if r.beforeNextSave(ctx, retry.next()) != nil {
			return false
		}
	}
}

func (r *Relay) hurried() bool {
	select {
	case <-r.hurry:
		return true
	default:
		return false
	}
}

// beforeNextSave is the pause after a save that failed. Publishing goes on meanwhile: a crash now repeats more than the
// window, and loses nothing, because the source is not told. A stop cuts the pause short, because it waits for the save.
func (r *Relay) beforeNextSave(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		r.window.forget(r.durable())
		select {
		case <-r.window.moved:
		case <-timer.C:
			return nil
		case <-r.hurry:
			return sleep(ctx, min(d, r.opts.RetryInitial))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// durable is the end of the durable prefix. It keeps the prefix's last event id, which the window forgets.
func (r *Relay) durable() uint64 {
	seq, lastID := r.window.durable()
	r.lastID = cmp.Or(lastID, r.lastID)
	return seq
}

func (r *Relay) saveOnce(ctx context.Context) error {
	seq := r.durable()
	c := *r.checkpoint.Load()
	if seq > r.saved.Load() { // else the same once more
		c.Progress = r.Source.Progress(seq)
	}
	r.sequence++ // also after a failed save: it may have been stored, with its answer lost
	c.Sequence = r.sequence
	c.SavedAt = time.Now()
	c.LastEventID = cmp.Or(r.lastID, c.LastEventID)
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	if err := r.Checkpointer.Save(ctx, c); err != nil {
		r.metrics.checkpointErrors.Inc()
		r.health.failed(err)
		return err
	}
	r.checkpoint.Store(&c)
	r.metrics.lastCheckpoint.Set(float64(c.SavedAt.UnixMilli()) / 1e3)
	r.Source.Confirm(seq)
	r.saved.Store(seq)
	r.window.forget(seq)
	return nil
}

// drain admits nothing more and waits until what was sent is durable, saved and confirmed. After a
// refused record only what stands before it can be saved, and after a refused checkpoint nothing.
func (r *Relay) drain(ctx context.Context, cause error) {
	r.window.close()
	close(r.hurry)
	timeout := r.opts.ShutdownTimeout
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	for {
		st := r.window.state()
		until := st.sent
		if r.refused.Load() {
			until = st.acked
		}
		done := r.saved.Load() >= until && r.parted.Load() && (cause != nil || st.oldestTaken.IsZero())
		if done || r.unsaved.Load() {
			return
		}
		select {
		case err := <-r.fatal:
			r.log.Error("stopped while draining", "error", err)
			return
		case <-time.After(drainPoll):
		case <-ctx.Done():
			r.log.Warn("not everything in flight was acknowledged and saved in time; the next start publishes it again", "timeout", timeout.String(), "in_flight_events", st.events)
			return
		}
	}
}

const drainPoll = 5 * time.Millisecond

// stallAfter is how long a batch may stay in flight before the relay reports itself stalled.
const stallAfter = time.Minute

// watch reports a pipeline that holds batches and does not move.
func (r *Relay) watch(ctx context.Context) {
	var warned time.Time
	for sleep(ctx, time.Second) == nil {
		st := r.window.state()
		age := time.Since(st.oldestTaken)
		stalled := !st.oldestTaken.IsZero() && age > stallAfter
		r.health.stall(stalled)
		if stalled && time.Since(warned) > time.Minute {
			warned = time.Now()
			r.log.Error("stalled: nothing was acknowledged for a while; is Kafka reachable, are enough replicas in sync?",
				"oldest_in_flight", age.Round(time.Second).String(), "in_flight_events", st.events)
		}
	}
}
