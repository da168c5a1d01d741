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
	Open func(tb testing.TB) Store
	// Exclusive says that a second store is refused while another has saved and is open.
	Exclusive bool
	// Put and Get handle the stored bytes; nil is nothing stored.
	Put func(tb testing.TB, value []byte)
	Get func(tb testing.TB) []byte
}

// Run holds a store to the rules. It calls fresh for each of them.
func Run(t *testing.T, fresh func(tb testing.TB) Harness) {
	t.Helper()
	for _, rule := range []struct {
		name string
		hold func(rules)
	}{
		{"finds nothing at first", rules.findsNothing},
		{"gives back what was saved", rules.givesBack},
		{"outlives the store", rules.outlives},
		{"accepts newer and refuses older", rules.comparesNumbers},
		{"compares all 64 bits", rules.comparesLargeNumbers},
		{"accepts a repeated save", rules.acceptsRepeat},
		{"refuses the same numbers with other content", rules.refusesSameNumbers},
		{"never overwrites another source", rules.refusesForeign},
		{"takes a promotion for the same source", rules.acceptsTimeline},
		{"refuses content that it does not know", rules.refusesUnusable},
		{"is written again after a flush", rules.acceptsAfterFlush},
		{"is written again after a rollback", rules.acceptsAfterRollback},
		{"forgets on reset", rules.resets},
		{"fences on reset what it does not know", rules.resetsNothing},
		{"does nothing under a cancelled context", rules.obeysContext},
		{"keeps the order under any interleaving", rules.anyInterleaving},
		{"keeps the order among concurrent savers", rules.concurrent},
	} {
		t.Run(rule.name, func(t *testing.T) { rule.hold(rules{t, fresh(t)}) })
	}
}

// rules are the rules, each on a fresh place.
type rules struct {
	t *testing.T
	Harness
}

// open opens a store for the rule's time.
func (r rules) open() Store {
	s := r.Open(r.t)
	r.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			r.t.Errorf("close: %v", err)
		}
	})
	return s
}

// pair opens two stores on the place, or one twice where two cannot be.
func (r rules) pair() [2]Store {
	first := r.open()
	if r.Exclusive {
		return [2]Store{first, first}
	}
	return [2]Store{first, r.open()}
}

func mustSave(tb testing.TB, s Store, c cdc.Checkpoint) {
	tb.Helper()
	if err := s.Save(tb.Context(), c); err != nil {
		tb.Fatalf("save generation %d, sequence %d: %v", c.Generation, c.Sequence, err)
	}
}

func mustLoad(tb testing.TB, s Store) cdc.Checkpoint {
	tb.Helper()
	c, found, err := s.Load(tb.Context())
	if err != nil || !found {
		tb.Fatalf("load: found %t, error %v", found, err)
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
