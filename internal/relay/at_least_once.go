package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// atLeastOnce keeps positions in the checkpoint (C). Kafka acknowledges, then C is saved, then the source is told.
type atLeastOnce struct{ *attempt }

// resume returns the checkpoint, or the position in Kafka of exactly-once delivery that it has yet to supersede.
func (k *atLeastOnce) resume(ctx context.Context, id cdc.Source, loaded cdc.Checkpoint, found bool, away error) (cdc.Checkpoint, bool, error) {
	if h, ok := k.Checkpointer.(Handover); ok && away == nil {
		return h.Resume(ctx, id, loaded, found)
	}
	return loaded, found, away
}

func (k *atLeastOnce) claim(ctx context.Context, c, loaded cdc.Checkpoint) (cdc.Checkpoint, error) {
	c.ExactlyOnce, c.PositionTopic = false, ""
	if c.Fence == "" {
		c.Fence = k.fence(c.Source, "")
	}
	if err := k.Checkpointer.Claim(ctx, c, loaded); err != nil {
		return c, cdc.About(cdc.OnCheckpoint, fmt.Errorf("claim checkpoint: %w", err))
	}
	return c, nil
}

// open opens the sink under its fence. A stored one that is another, because of a change of the configuration, is replaced,
// once its last holder is fenced too.
//
// The claim is saved again before and after: a relay that was superseded while it waited must not fence its successor,
// and must not publish under a fence that is newer than its successor's.
func (k *atLeastOnce) open(ctx context.Context) error {
	c := *k.checkpoint.Load()
	if err := k.Checkpointer.Save(ctx, c); err != nil {
		return cdc.About(cdc.OnCheckpoint, err)
	}
	var replaced []string
	current := k.fence(c.Source, c.Fence)
	if c.Fence != current {
		replaced = []string{c.Fence}
	}
	if err := k.Sink.Open(ctx, current, replaced...); err != nil {
		return cdc.About(cdc.OnKafka, err)
	}
	if err := k.Checkpointer.Save(ctx, c); err != nil {
		return cdc.About(cdc.OnCheckpoint, err)
	}
	if err := k.loadLetters(ctx, &c); err != nil {
		k.Sink.Kill() // it may have failed, and is opened again
		k.Sink.Reset()
		return err
	}
	c.Fence = current // last: the claim that a repeated open saves must be the one that is stored
	k.checkpoint.Store(&c)
	return nil
}

func (k *atLeastOnce) keep(ctx context.Context) { k.saveLoop(ctx, k.window.moved, k.save) }

// save saves the position of the durable prefix, and then confirms it.
func (k *atLeastOnce) save(ctx context.Context) error {
	c, seq := k.durable()
	if seq > k.savedSeq.Load() {
		c.Progress.Part = cdc.Part{} // what is open is repeated
	}
	c, err := k.store(ctx, c)
	if err != nil {
		return err
	}
	k.confirm(seq, &c)
	return nil
}

// stepDown returns false: the run ends.
func (k *atLeastOnce) stepDown(error) bool { return false }

// fencedTimeout limits the question to Kafka whether another relay has taken over.
const fencedTimeout = 10 * time.Second

// replaced asks the store for the generation, and for a slot that has moved also Kafka for the fence: the slot may be the only position.
func (k *atLeastOnce) replaced(ctx context.Context, reason string) bool {
	c, _, failed := k.Checkpointer.Load(ctx)
	if failed == nil && c.Generation > k.checkpoint.Load().Generation {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, fencedTimeout)
	defer cancel()
	return reason == cdc.SlotMoved && k.Sink.Fenced(ctx)
}

func (k *atLeastOnce) acked(seq uint64) cdc.Position { return k.Source.Progress(seq).Position }

// closing finishes an open transaction unless the attempt has failed: a position is the end of a transaction, so the part that was published
// would be repeated.
func (k *atLeastOnce) closing(cause error) (finish, worthwhile bool) { return cause == nil, true }

func (k *atLeastOnce) drained(st windowState, last uint64, cut bool) bool {
	until := st.sent
	if k.sinkFailed.Load() {
		until = st.acked
	}
	return k.savedSeq.Load() >= min(until, last) && k.finalSaveTried.Load() && (cut || st.oldestOffered.IsZero() && !st.open)
}

func (k *atLeastOnce) finish(context.Context, error) {}
