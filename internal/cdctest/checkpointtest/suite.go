// Package checkpointtest holds the rules that every checkpoint store obeys, whatever it keeps its
// checkpoint in: Run them against each store, on fakes and on the real servers.
package checkpointtest

import (
	"context"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Store is what the suite needs of a checkpoint store.
type Store interface {
	Load(ctx context.Context) (c cdc.Checkpoint, found bool, err error)
	Save(ctx context.Context, c cdc.Checkpoint) error
	Reset(ctx context.Context) error
	Close() error
}

// Harness is a place for one checkpoint, empty at first, seen from the store and from behind its back.
type Harness struct {
	// Open returns another store on the same place.
	Open func(t testing.TB) Store
	// Exclusive says that a second store is refused while another has saved and is open.
	Exclusive bool
	// Put and Get handle the stored octets; nil is nothing stored.
	Put func(t testing.TB, value []byte)
	Get func(t testing.TB) []byte
}

// Run holds a store to the rules. It calls fresh for each of them.
func Run(t *testing.T, fresh func(t testing.TB) Harness) {
	t.Helper()
	for _, rule := range []struct {
		name string
		hold func(t *testing.T, h Harness)
	}{
		{"finds nothing at first", findsNothing},
		{"gives back what was saved", givesBack},
		{"outlives the store", outlives},
		{"accepts newer and refuses older", comparesNumbers},
		{"compares all 64 bits", comparesLargeNumbers},
		{"accepts a repeated save", acceptsRepeat},
		{"refuses the same numbers with other content", refusesSameNumbers},
		{"never overwrites another source", refusesForeign},
		{"takes a promotion for the same source", acceptsTimeline},
		{"refuses content that it does not know", refusesUnusable},
		{"is written again after a flush", acceptsAfterFlush},
		{"is written again after a rollback", acceptsAfterRollback},
		{"forgets on reset", resets},
		{"does nothing under a cancelled context", obeysContext},
		{"keeps the order under any interleaving", anyInterleaving},
		{"keeps the order among concurrent savers", concurrent},
	} {
		t.Run(rule.name, func(t *testing.T) { rule.hold(t, fresh(t)) })
	}
}

// open opens a store for the test's time.
func (h Harness) open(t *testing.T) Store {
	t.Helper()
	s := h.Open(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// pair opens two stores on the place, or one twice where two cannot be.
func (h Harness) pair(t *testing.T) [2]Store {
	t.Helper()
	first := h.open(t)
	if h.Exclusive {
		return [2]Store{first, first}
	}
	return [2]Store{first, h.open(t)}
}

func mustSave(t testing.TB, s Store, c cdc.Checkpoint) {
	t.Helper()
	if err := s.Save(t.Context(), c); err != nil {
		t.Fatalf("save generation %d, sequence %d: %v", c.Generation, c.Sequence, err)
	}
}

func mustLoad(t testing.TB, s Store) cdc.Checkpoint {
	t.Helper()
	c, found, err := s.Load(t.Context())
	if err != nil || !found {
		t.Fatalf("load: found %t, error %v", found, err)
	}
	return c
}

// equal compares checkpoints; times by their instant.
func equal(a, b cdc.Checkpoint) bool {
	if !a.SavedAt.Equal(b.SavedAt) {
		return false
	}
	a.SavedAt = b.SavedAt
	return a == b
}
