package checkpoint

import (
	"context"
	"fmt"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Handover is the store of at-least-once delivery where exactly-once delivery may have been before: its last position may
// count, and is superseded in Kafka before anything is published.
type Handover struct {
	Store

	places     *Places
	supersedes bool // Resume has found a position in Kafka that Claim has to supersede
}

// NewHandover returns the store of a relay with at-least-once delivery.
func NewHandover(store Store, o PlacesOptions) *Handover {
	return &Handover{Store: store, places: NewPlaces(store, o)}
}

// Resume returns the position that counts, given the checkpoint.
func (h *Handover) Resume(ctx context.Context, id cdc.Source, stored cdc.Checkpoint, found bool) (cdc.Checkpoint, bool, error) {
	h.supersedes = false
	h.places.id = id
	h.places.remember(stored, found, nil)
	if err := h.places.readKafka(ctx); err != nil {
		return stored, found, cdc.About(cdc.OnKafka, err)
	}
	c, found, err := h.places.Newest(id)
	h.supersedes = h.places.Committed && (h.places.Last.ExactlyOnce || found && c == h.places.Last)
	return c, found, err
}

// Claim supersedes the position in Kafka first, unless somebody has changed it since: exactly-once delivery would start from it
// again. Afterwards it notes there that the store has the claim, so that a store that is rolled back behind it is noticed.
func (h *Handover) Claim(ctx context.Context, next, loaded cdc.Checkpoint) error {
	if !h.supersedes {
		return h.Store.Claim(ctx, next, loaded)
	}
	superseded := next
	superseded.ExactlyOnce, superseded.Fence = false, h.places.fence(next.Source)
	err := h.places.commit(ctx, next.Source, func(t *Topic) error {
		if err := h.places.sameInKafka(ctx, t); err != nil {
			return err
		}
		if err := t.Commit(ctx, superseded); err != nil {
			return err
		}
		if err := h.Store.Claim(ctx, next, loaded); err != nil {
			return cdc.About(cdc.OnCheckpoint, err)
		}
		superseded.Sequence = claimed
		return t.Commit(ctx, superseded)
	})
	if err != nil {
		return cdc.About(cdc.OnKafka, fmt.Errorf("supersede the position in Kafka: %w", err))
	}
	return nil
}
