// Package checkpointtest is the conformance suite of checkpoint stores. Run it against each store, with fakes and with
// real servers.
package checkpointtest

import (
	"context"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Store is a checkpoint store.
type Store interface {
	Load(ctx context.Context) (c cdc.Checkpoint, found bool, err error)
	Claim(ctx context.Context, next, loaded cdc.Checkpoint) error
	Save(ctx context.Context, c cdc.Checkpoint) error
	Reset(ctx context.Context) error
	Close() error
}

// Harness is an empty place for one checkpoint, with direct access to it.
type Harness struct {
	// Open returns another store on the same place.
	Open func(tb testing.TB) Store
	// Exclusive reports whether a second store is refused while another one has saved and is open.
	Exclusive bool
	// Put and Get access the stored bytes; nil means that nothing is stored.
	Put func(tb testing.TB, value []byte)
	Get func(tb testing.TB) []byte
}

// Run tests a store. It calls fresh for each rule.
func Run(t *testing.T, fresh func(tb testing.TB) Harness) {
	t.Helper()
	for _, rule := range []struct {
		name string
		hold func(rules)
	}{
		{"finds nothing at first", rules.findsNothing},
		{"loads what was saved", rules.givesBack},
		{"outlives the store", rules.outlives},
		{"accepts a repeated save", rules.acceptsRepeat},
		{"refuses the same numbers with other content", rules.refusesSameNumbers},
		{"never overwrites another source", rules.refusesForeign},
		{"accepts another timeline of the same source", rules.acceptsTimeline},
		{"refuses unusable content", rules.refusesUnusable},
		{"saves again after a flush", rules.acceptsAfterFlush},
		{"saves again after a rollback", rules.acceptsAfterRollback},
		{"accepts a claim only if nothing was saved since the load", rules.claims},
		{"deletes on reset", rules.resets},
		{"fences on reset when nothing is stored", rules.resetsNothing},
		{"does nothing under a cancelled context", rules.obeysContext},
		{"keeps the order under any interleaving", rules.anyInterleaving},
		{"keeps the order among concurrent savers", rules.concurrent},
	} {
		t.Run(rule.name, func(t *testing.T) { rule.hold(rules{t, fresh(t)}) })
	}
}

// rules are the rules for one harness.
type rules struct {
	t *testing.T
	Harness
}

// open opens a store for the duration of the rule.
func (r rules) open() Store {
	s := r.Open(r.t)
	r.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			r.t.Errorf("close: %v", err)
		}
	})
	return s
}

// pair opens two stores on the same place; an exclusive store is returned twice.
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

// equal compares checkpoints, and times by their instant.
func equal(a, b cdc.Checkpoint) bool {
	if !a.SavedAt.Equal(b.SavedAt) {
		return false
	}
	a.SavedAt = b.SavedAt
	return a == b
}
