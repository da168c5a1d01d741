package relay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
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

// saveLoop calls save whenever moved is signalled, every saveAgain, and during the drain. A slow store gets fewer saves, with larger steps.
func (a *attempt) saveLoop(ctx context.Context, moved <-chan struct{}, save func(context.Context) error) {
	defer a.saverDone.Store(true)
	retry := a.pauses()
	again := time.NewTicker(saveAgain)
	defer again.Stop()
	flush := a.flush
	for {
		select {
		case <-moved:
		case <-again.C:
		case <-flush:
		case <-ctx.Done():
			return
		}
		if !a.saveWithRetry(ctx, retry, save) {
			return
		}
		if a.finalSaveTried.Load() {
			flush = nil
		}
		retry.Reset()
		select { // what becomes durable meanwhile goes into one save
		case <-time.After(saveInterval):
		case <-a.flush:
		case <-ctx.Done():
			return
		}
	}
}

// saveWithRetry saves until a save succeeds. It returns false if none can succeed any more.
func (a *attempt) saveWithRetry(ctx context.Context, retry *pauses, save func(context.Context) error) bool {
	for {
		flushing := a.flushing()
		err := save(ctx)
		if flushing {
			a.finalSaveTried.Store(true)
		}
		if err == nil || a.endIfFinal(err) {
			return err == nil
		}
		if ctx.Err() != nil {
			return false
		}
		// Publishing continues meanwhile: a crash now repeats more than the window holds, and loses nothing, because
		// nothing is confirmed to the source.
		a.window.notSaved()
		if a.waitToRetry(ctx, retry.next()) != nil {
			return false
		}
	}
}

func (a *attempt) flushing() bool {
	select {
	case <-a.flush:
		return true
	default:
		return false
	}
}

// waitToRetry is the pause after a failed save. A stop, which waits for the save, shortens it.
func (a *attempt) waitToRetry(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-a.flush:
		return cdc.Sleep(ctx, min(d, a.opts.RetryInitial))
	case <-ctx.Done():
		return ctx.Err()
	}
}

// durable returns the checkpoint of the durable prefix, which ends with the batch seq.
func (a *attempt) durable() (c cdc.Checkpoint, seq uint64) {
	seq, lastID := a.window.durable()
	c = *a.checkpoint.Load()
	was := c.Progress
	c.Source = a.identity(seq)
	if seq > a.savedSeq.Load() { // otherwise the same position is saved again
		if c.Progress = a.Source.Progress(seq); c.Progress.Replaced != was.Replaced { // nothing tells which rows of the new table were published
			c.Settled = ""
			a.settled.forget()
		}
		if c.Progress.Position != was.Position { // a repair publishes before it moves the position, and begins again behind the last event
			c.LastEventID = cmp.Or(lastID, c.LastEventID)
		}
	}
	if _, repairs := a.Source.(Adopting); !repairs || c.Progress.Position != was.Position { // until then it tells the next repair when the gap began
		c.SavedAt = time.Now()
	}
	c.Settled = a.settled.in(c.Settled)
	return c, seq
}

// settled are conditions that were settled since the start of an attempt.
type settled struct {
	mu    sync.Mutex
	names []string
}

// Saved implements [cdc.Kept].
func (a *attempt) Saved() cdc.Checkpoint { return *a.checkpointOrNone() }

// Settle implements [cdc.Kept].
func (a *attempt) Settle(condition string) {
	a.settled.mu.Lock()
	defer a.settled.mu.Unlock()
	a.settled.names = append(a.settled.names, condition)
}

// forget leaves it to the tables that were not replaced to settle their conditions again.
func (s *settled) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = nil
}

// in adds them to those of a checkpoint.
func (s *settled) in(stored string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := append(strings.Fields(stored), s.names...)
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " ")
}

// confirm tells the source that everything up to seq is durable and its position c saved.
func (a *attempt) confirm(seq uint64, c *cdc.Checkpoint) {
	a.checkpoint.Store(c) // before Confirm: a reconnect compares it with the slot
	a.Source.Confirm(seq)
	a.savedSeq.Store(seq)
	a.window.saved(seq)
}

// identity returns the source's identity to save once every batch up to seq is durable.
func (a *attempt) identity(seq uint64) cdc.Source {
	if source, ok := a.Source.(Adopting); ok {
		id := source.Identity(seq)
		a.sourceID.Store(&id)
	}
	return *a.sourceID.Load()
}

// store saves c with the next sequence number.
func (a *attempt) store(ctx context.Context, c cdc.Checkpoint) (cdc.Checkpoint, error) {
	a.sequence++ // also after a failed save: it may have been stored, with its answer lost
	c.Sequence = a.sequence
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	if err := a.Checkpointer.Save(ctx, c); err != nil {
		a.metrics.saveErrors.Inc()
		a.health.failed(err)
		a.opts.Problems.Report(saveReporter, cdc.Problem{With: cdc.OnCheckpoint, Err: fmt.Errorf("position not saved: %w", err)})
		return c, err
	}
	a.opts.Problems.Report(saveReporter)
	return c, nil
}

// noteAltered has the last saves of an attempt that saw the publication altered say so.
func (a *attempt) noteAltered(cause error) {
	if cdc.ReasonOf(cause) == cdc.PublicationAltered {
		id := *a.sourceID.Load()
		id.Fingerprint = cdc.Altered
		a.sourceID.Store(&id)
	}
}
