package main

import (
	"context"
	"fmt"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/position"
	"github.com/cdc-relay/cdc-relay/internal/relay"
)

// handover is the store of at-least-once delivery where exactly-once delivery may have been before: its last position may
// count, and is superseded in Kafka before anything is published.
type handover struct {
	*places

	supersedes bool
}

var _ relay.Handover = (*handover)(nil)

// Load returns the checkpoint, which need not be what counts; see Resume.
func (h *handover) Load(ctx context.Context) (cdc.Checkpoint, bool, error) { return h.store.Load(ctx) }

// Resume implements relay.Handover.
func (h *handover) Resume(ctx context.Context, id cdc.Source, stored cdc.Checkpoint, found bool) (cdc.Checkpoint, bool, error) {
	h.supersedes = false
	h.id = id
	h.remember(stored, found, nil)
	if err := h.readKafka(ctx); err != nil {
		return stored, found, cdc.About(cdc.OnKafka, err)
	}
	c, found, err := h.Newest(id)
	h.supersedes = h.Committed && (h.Last.ExactlyOnce || found && c == h.Last)
	return c, found, err
}

// Claim supersedes the position in Kafka first, unless somebody has changed it since: exactly-once delivery would start from it
// again. Afterwards it notes there that the store has the claim, so that a store that is rolled back behind it is noticed.
func (h *handover) Claim(ctx context.Context, next, loaded cdc.Checkpoint) error {
	if !h.supersedes {
		return h.store.Claim(ctx, next, loaded)
	}
	superseded := next
	superseded.ExactlyOnce, superseded.Fence = false, h.fence(next.Source)
	err := h.commit(ctx, next.Source, func(t *checkpoint.Topic) error {
		if err := h.sameInKafka(ctx, t); err != nil {
			return err
		}
		if err := t.Commit(ctx, superseded); err != nil {
			return err
		}
		if err := h.store.Claim(ctx, next, loaded); err != nil {
			return cdc.About(cdc.OnCheckpoint, err)
		}
		superseded.Sequence = position.Claimed
		return t.Commit(ctx, superseded)
	})
	if err != nil {
		return cdc.About(cdc.OnKafka, fmt.Errorf("supersede the position in Kafka: %w", err))
	}
	return nil
}
