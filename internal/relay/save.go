package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

const (
	// saveInterval is the least time between two saves: what becomes durable meanwhile goes into one.
	saveInterval = 50 * time.Millisecond
	// saveTimeout limits one save. While the store hangs, nothing is confirmed to the source.
	saveTimeout = 5 * time.Second
	// saveAgain is how often an unchanged position is saved again. It restores a checkpoint that the store has lost (a
	// flush, a failover, a deleted file), and lets an idle relay notice that it was fenced.
	saveAgain = 10 * time.Second
)

// save stores the position of the durable prefix, and then confirms it to the source: whenever the prefix has grown,
// every saveAgain, and during the drain.
func (r *Relay) save(ctx context.Context) {
	defer r.saverDone.Store(true)
	retry := r.pauses()
	again := time.NewTicker(saveAgain)
	defer again.Stop()
	flush, moved := r.flush, r.window.moved
	if r.exactlyOnce() {
		moved = r.committed
	}
	for {
		select {
		case <-moved:
		case <-again.C:
		case <-flush:
		case <-ctx.Done():
			return
		}
		if !r.saveWithRetry(ctx, retry) {
			return
		}
		if r.finalSaveTried.Load() {
			flush = nil
		}
		retry.Reset()
		select { // what becomes durable meanwhile goes into one save
		case <-time.After(saveInterval):
		case <-r.flush:
		case <-ctx.Done():
			return
		}
	}
}

// saveWithRetry saves until a save succeeds. It returns false if none can succeed any more.
func (r *Relay) saveWithRetry(ctx context.Context, retry *pauses) bool {
	for {
		flushing := r.flushing()
		err := r.saveOnce(ctx)
		if flushing {
			r.finalSaveTried.Store(true)
		}
		if err == nil || r.stops(err) {
			return err == nil
		}
		if ctx.Err() != nil { // saveLast copies the last commit
			return false
		}
		// Publishing continues meanwhile: a crash now repeats more than the window holds, and loses nothing, because
		// nothing is confirmed to the source.
		r.window.notSaved()
		r.log.Warn("position not saved, retrying", cdc.Repeats(), slog.Any("error", err))
		if r.waitToRetry(ctx, retry.next()) != nil {
			return false
		}
	}
}

func (r *Relay) flushing() bool {
	select {
	case <-r.flush:
		return true
	default:
		return false
	}
}

// waitToRetry is the pause after a failed save. A stop, which waits for the save, shortens it.
func (r *Relay) waitToRetry(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-r.flush:
		return sleep(ctx, min(d, r.opts.RetryInitial))
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Relay) saveOnce(ctx context.Context) error {
	seq, lastID := r.window.durable()
	c := *r.checkpoint.Load()
	if r.exactlyOnce() { // a copy of what was committed
		_, err := r.store(ctx, c)
		return err
	}
	c.Source = r.identity(seq)
	if seq > r.saved.Load() { // otherwise the same position is saved again
		c.Progress = r.Source.Progress(seq)
		c.Progress.Part = cdc.Part{} // what is open is repeated
	}
	c.SavedAt = time.Now()
	c.LastEventID = cmp.Or(lastID, c.LastEventID)
	c, err := r.store(ctx, c)
	if err != nil {
		return err
	}
	r.checkpoint.Store(&c)
	r.metrics.lastCheckpoint.Set(float64(c.SavedAt.UnixMilli()) / 1e3)
	r.Source.Confirm(seq)
	r.saved.Store(seq)
	r.window.saved(seq)
	return nil
}

// identity returns the source's identity to save once every batch up to seq is durable.
func (r *Relay) identity(seq uint64) cdc.Source {
	if source, ok := r.Source.(Adopting); ok {
		id := source.Identity(seq)
		r.source.Store(&id)
	}
	return *r.source.Load()
}

// store saves c with the next sequence number.
func (r *Relay) store(ctx context.Context, c cdc.Checkpoint) (cdc.Checkpoint, error) {
	r.sequence++ // also after a failed save: it may have been stored, with its answer lost
	c.Sequence = r.sequence
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	if err := r.Checkpointer.Save(ctx, c); err != nil {
		r.metrics.checkpointErrors.Inc()
		r.health.failed(err)
		r.opts.Problems.Report(saveReporter, cdc.Problem{With: cdc.OnCheckpoint, Err: fmt.Errorf("position not saved: %w", err)})
		return c, err
	}
	r.opts.Problems.Report(saveReporter)
	return c, nil
}

// noteAltered has the last saves of a run that saw the publication altered say so.
func (r *Relay) noteAltered(cause error) {
	if stop, ok := errors.AsType[*cdc.StopError](cause); ok && stop.Reason == cdc.PublicationAltered {
		id := *r.source.Load()
		id.Fingerprint = cdc.Altered
		r.source.Store(&id)
	}
}

// saveLast copies the last commit to the store: a stop leaves both alike.
func (r *Relay) saveLast(ctx context.Context, cause error) {
	if !r.exactlyOnce() || errors.Is(cause, cdc.ErrRewind) {
		return
	}
	ctx = context.WithoutCancel(ctx)
	if r.source.Load().Fingerprint != r.checkpoint.Load().Source.Fingerprint && r.saved.Load() >= r.window.state().sentEvents { // see noteAltered
		limited, cancel := context.WithTimeout(ctx, saveTimeout)
		err := r.commitOnce(limited)
		cancel()
		if err != nil {
			r.log.Warn("position not committed: the next start does not know that the publication was altered", "error", err)
		}
	}
	if err := r.saveOnce(ctx); err != nil {
		r.log.Warn("checkpoint not saved; the position in Kafka is", "error", err)
	}
}
