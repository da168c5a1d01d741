package wal

import (
	"testing"
)

// A horizon counts once the position has passed its place, and only after another look that found the publication unchanged.
func TestHorizonCountsBehindItsPlace(t *testing.T) {
	var h horizons
	h.start(horizon{xmin: 100, at: 1000})
	look := func(next horizon) {
		h.accept()
		h.propose(next)
	}
	look(horizon{xmin: 200, at: 2000})
	want := func(position lsn, xmin string) {
		t.Helper()
		if got := h.before(position); got != xmin {
			t.Errorf("before %s: %q, want %q", position, got, xmin)
		}
	}
	want(3000, "100") // the look may have been just before the publication was changed
	look(horizon{xmin: 200, at: 2500})
	want(1999, "100")
	want(2000, "200")
	look(horizon{xmin: 300, at: 3000})
	want(3000, "200") // not "300", and the earlier place of 200 still counts
	look(horizon{})   // of a standby
	want(2999, "200")
	want(3000, "300")
	h.forget(2500)
	want(2500, "200")
	h.start(horizon{})
	want(9000, "")
}

// While the position stands still, only so many are kept, and what is left still counts.
func TestHorizonsAreLimited(t *testing.T) {
	var h horizons
	for i := range uint64(10 * maxHorizons) {
		h.propose(horizon{xmin: i + 1, at: lsn(i + 1)})
		h.accept()
	}
	if len(h.list) > maxHorizons {
		t.Errorf("%d horizons are kept", len(h.list))
	}
	if got := h.before(10 * maxHorizons); got == "" {
		t.Error("none is left")
	}
	for _, each := range h.list {
		if each.xmin != uint64(each.at) {
			t.Errorf("%v is none of those that were added", each)
		}
	}
}
