package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
)

// exactlyOnce keeps positions in Kafka (K), and a copy in the checkpoint (C).
//
// The sink collects batches in a transaction until it answers Cut: everything that it has accepted is acknowledged.
// commitOnce then commits it with the position, which is in Kafka from then on (K). The checkpoint (C) is a copy of K, for a
// change to at-least-once delivery, and the slot (S) is told after K. So S and C are never ahead of K.
//
// A start takes the slot or lock, fences earlier relays, reads K, and streams from there: whatever was published behind K
// was aborted by the fence. K may be within a transaction of the database, which cdc.Part describes.
//
// Whatever makes it uncertain whether a transaction was committed ends the attempt with cdc.ErrRewind. The next attempt
// starts in the same way as another process would.
type exactlyOnce struct {
	*attempt

	committed chan struct{} // capacity 1: checkpoint has changed
}

func newExactlyOnce(a *attempt) *exactlyOnce {
	a.window.releaseAtAck()
	return &exactlyOnce{a, make(chan struct{}, 1)}
}

// resume returns the position that counts. If the checkpoint could not be loaded, that is only the one in Kafka, unless
// at-least-once delivery has superseded it.
func (k *exactlyOnce) resume(ctx context.Context, id cdc.Source, loaded cdc.Checkpoint, found bool, away error) (cdc.Checkpoint, bool, error) {
	if away != nil && !copyAway(away) {
		return loaded, found, away
	}
	c, found, err := k.fenceAndRead(ctx, id, checkpoint.Known{Topic: k.opts.PositionTopic, ExactlyOnce: true, Stored: loaded, Found: found, Away: away})
	if err == nil && away != nil {
		k.log.Warn("checkpoint not loaded; the position in Kafka counts", "error", away)
	}
	return c, found, err
}

// copyAway reports whether err only says that the store is away or its content damaged, which is no more than a copy of the
// position.
func copyAway(err error) bool {
	if errors.Is(err, cdc.ErrStandby) {
		return false
	}
	stop, stops := errors.AsType[*cdc.StopError](err)
	return !stops || stop.Reason == cdc.UnusableCheckpoint
}

// fenceAndRead fences earlier relays, reads the position in Kafka, and returns the one that counts.
//
// An earlier relay may have had another transactional ID, which its last position has. A transaction that it has left open
// would hide the barrier until Kafka aborts it, so that position is read first, without a barrier.
func (k *exactlyOnce) fenceAndRead(ctx context.Context, id cdc.Source, p checkpoint.Known) (cdc.Checkpoint, bool, error) {
	fence := k.fence(id, "")
	readable, _, _ := k.Committer.Newest(ctx) // an error comes again
	if !readable.Source.Same(id) {            // it is refused below, and its relay may be a healthy one
		readable = cdc.Checkpoint{}
	}
	earlier := checkpoint.EarlierFences(fence, id, p.Stored, readable)
	for {
		k.Sink.Kill()
		k.Sink.Reset()
		if err := k.Sink.Open(ctx, fence, earlier...); err != nil {
			return cdc.Checkpoint{}, false, cdc.About(cdc.OnKafka, err)
		}
		var err error
		if p.Last, p.Committed, err = k.Committer.Last(ctx); err != nil {
			return cdc.Checkpoint{}, false, cdc.About(cdc.OnKafka, fmt.Errorf("read the position in Kafka: %w", err))
		}
		if last := p.Last; p.Committed && last.Source.Same(id) && last.Fence != fence && !slices.Contains(earlier, last.Fence) { // its relay may still be there
			earlier = append(earlier, last.Fence)
			continue
		}
		return p.Newest(id)
	}
}

// claim commits the claim to Kafka first, so that the checkpoint's generation is never above that in Kafka. Its copy may wait, but not
// where it replaces the checkpoint of at-least-once delivery.
func (k *exactlyOnce) claim(ctx context.Context, c, loaded cdc.Checkpoint) (cdc.Checkpoint, error) {
	c.ExactlyOnce, c.PositionTopic, c.Fence = true, k.opts.PositionTopic, k.fence(c.Source, "")
	if err := k.loadLetters(ctx, &c); err != nil {
		return c, err
	}
	if err := k.Committer.Commit(ctx, c); err != nil {
		return c, cdc.About(cdc.OnKafka, fmt.Errorf("commit the position: %w", err))
	}
	copied := loaded.ExactlyOnce || loaded.Source == cdc.Source{}
	switch err := k.Checkpointer.Claim(ctx, c, loaded); {
	case err == nil:
	case copied && copyAway(err):
		k.log.Warn("checkpoint not claimed; the position in Kafka is", "error", err)
	default:
		return c, cdc.About(cdc.OnCheckpoint, fmt.Errorf("claim checkpoint: %w", err))
	}
	return c, nil
}

// open has nothing to do: resume has opened the sink, and claim has loaded the letters.
func (k *exactlyOnce) open(context.Context) error { return nil }

// keep commits positions, and copies them to the store.
func (k *exactlyOnce) keep(ctx context.Context) {
	var committing sync.WaitGroup
	committing.Go(func() { k.commit(ctx) })
	k.saveLoop(ctx, k.committed, k.copy)
	committing.Wait()
}

// commit commits the position when the sink asks for it.
func (k *exactlyOnce) commit(ctx context.Context) {
	for {
		select {
		case <-k.cut:
		case <-ctx.Done():
			return
		}
		if err := k.commitOnce(ctx); err != nil {
			if ctx.Err() == nil {
				k.fail(err)
			}
			return
		}
	}
}

// commitOnce commits all batches that were acknowledged; nothing else was sent.
func (k *exactlyOnce) commitOnce(ctx context.Context) error {
	c, seq := k.durable()
	if err := k.Committer.Commit(ctx, c); err != nil {
		k.metrics.saveErrors.Inc()
		return err
	}
	k.confirm(seq, &c)
	signal(k.committed)
	return nil
}

// copy saves what was committed last.
func (k *exactlyOnce) copy(ctx context.Context) error {
	_, err := k.store(ctx, *k.checkpoint.Load())
	return err
}

// stepDown has the next attempt stand by.
func (k *exactlyOnce) stepDown(err error) bool {
	k.fail(fmt.Errorf("%w: %w", cdc.ErrRewind, err))
	return true
}

// replaced leaves it to the next attempt to find out, from the position in Kafka. That the publication was altered is noted there by an
// attempt that leads; see noteAltered.
func (k *exactlyOnce) replaced(_ context.Context, reason string) bool {
	return reason != cdc.PublicationAltered
}

// acked is the position that was committed last. Nothing else may ask the source for progress.
func (k *exactlyOnce) acked(uint64) cdc.Position { return k.checkpointOrNone().Progress.Position }

// closing does not finish a transaction of the database, because the position can be within one. Nothing is drained that can only be
// aborted. Nor is what the sink does not accept, because there may be no more dead letters.
func (k *exactlyOnce) closing(cause error) (finish, worthwhile bool) {
	return false, !errors.Is(cause, cdc.ErrRewind) && !k.sinkFailed.Load()
}

func (k *exactlyOnce) drained(st windowState, last uint64, _ bool) bool {
	until := st.sentEvents
	if k.sourceID.Load().Fingerprint == cdc.Altered { // it is committed with what is open; see noteAltered
		until = st.sent
	}
	return k.savedSeq.Load() >= min(until, last)
}

// finish copies the last commit to the store, so that a stop leaves both alike, and aborts what is open.
func (k *exactlyOnce) finish(ctx context.Context, cause error) {
	if errors.Is(cause, cdc.ErrRewind) { // the next start has the same effect
		return
	}
	ctx = context.WithoutCancel(ctx)
	last := k.checkpoint.Load()
	altered, settled := k.sourceID.Load().Fingerprint != last.Source.Fingerprint, k.settled.in(last.Settled) != last.Settled // see noteAltered, and Settle
	if k.savedSeq.Load() >= k.window.state().sentEvents && (altered || settled) {
		limited, cancel := context.WithTimeout(ctx, saveTimeout)
		err := k.commitOnce(limited)
		cancel()
		if err != nil {
			k.log.Warn("position not committed: the next start does not know what was found out since the last one", "altered", altered, "settled", settled, "error", err)
		}
	}
	if err := k.copy(ctx); err != nil {
		k.log.Warn("checkpoint not saved; the position in Kafka is", "error", err)
	}
	if k.Status().Connected {
		k.abort(ctx)
	}
}

// abortTimeout limits an abort at the end of an attempt.
const abortTimeout = 5 * time.Second

// abort ends the transaction that is open, because consumers of committed records wait at it until Kafka's timeout: it has what could
// not be drained, or dead letters that are published again. The slot or lock is still held, so that no successor is fenced.
func (k *exactlyOnce) abort(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, abortTimeout)
	defer cancel()
	k.Sink.Kill()
	if err := k.Committer.Abort(ctx, k.fence(*k.sourceID.Load(), "")); err != nil {
		k.log.Warn("transaction not aborted: consumers of committed records wait until Kafka aborts it", "error", err)
	}
}
