package conformance

import (
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/relay"
)

// start runs a source of events that [Outbox.Insert] makes.
func start(t *testing.T, s relay.Source, load cdc.Resumer) *Running {
	t.Helper()
	return Start(t, s, NewQueue(t, "aggregate_id"), load)
}

// Resume ends a source, and its connection.
func Resume(t *testing.T, d Outbox) {
	t.Helper()
	r := start(t, d.Source(), d.Begin())
	d.Insert(0, 1, 10)
	r.ExpectUpTo(1, 10)
	half := r.Checkpoint()
	r.MustStop()
	d.Free()
	d.Insert(0, 11, 12)
	again := start(t, d.Source(), From(half))
	again.ExpectUpTo(11, 12)
	// The connection is lost: the same process continues behind what it has passed on.
	d.Cut()
	if err := again.Ended(); err == nil {
		t.Fatal("a lost connection is no error")
	}
	d.Insert(0, 13, 13)
	again.Again(From(half)).ExpectUpTo(11, 13)
}

// ReleasedBeforeReading has another source move the position of one that gave up the lead before it read anything.
func ReleasedBeforeReading(t *testing.T, d Outbox) {
	t.Helper()
	released := d.Source()
	if _, _, err := released.Acquire(t.Context(), d.Begin()); err != nil {
		t.Fatal(err)
	}
	released.Release(t.Context())
	released.Release(t.Context()) // which does no harm
	d.Free()
	other := start(t, d.Source(), d.Begin())
	d.Insert(0, 1, 1)
	other.ExpectUpTo(1, 1)
	saved := other.Checkpoint()
	other.MustStop()
	d.Free()
	d.Insert(0, 2, 2)
	start(t, released, From(saved)).ExpectUpTo(2, 2)
}
