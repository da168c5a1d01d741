package conformance

import "testing"

// Resume ends a source, and its connection.
func Resume(t *testing.T, d Outbox) {
	t.Helper()
	r := start(t, d.Source(), d.Begin())
	d.Insert(0, 1, 10)
	r.expect(1, 10)
	half := r.checkpoint()
	r.stop()
	d.Free()
	d.Insert(0, 11, 12)
	again := start(t, d.Source(), from(half))
	again.expect(11, 12)
	// The connection is lost: the same process continues behind what it has passed on.
	d.Cut()
	again.fails()
	d.Insert(0, 13, 13)
	again.run(from(half))
	again.expect(11, 13)
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
	other.expect(1, 1)
	saved := other.checkpoint()
	other.stop()
	d.Free()
	d.Insert(0, 2, 2)
	start(t, released, from(saved)).expect(2, 2)
}
