package wal

import (
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// A horizon counts once the position has passed its place, and only after another look that found the publication unchanged.
func TestHorizonCountsBehindItsPlace(t *testing.T) {
	var h horizons
	h.start(postgres.Horizon{XMin: 100, At: 1000})
	look := func(next postgres.Horizon) {
		h.accept()
		h.propose(next)
	}
	look(postgres.Horizon{XMin: 200, At: 2000})
	want := func(position lsn, xmin string) {
		t.Helper()
		if got := h.before(position); got != xmin {
			t.Errorf("before %s: %q, want %q", position, got, xmin)
		}
	}
	want(3000, "100") // the look may have been just before the publication was changed
	look(postgres.Horizon{XMin: 200, At: 2500})
	want(1999, "100")
	want(2000, "200")
	look(postgres.Horizon{XMin: 300, At: 3000})
	want(3000, "200")        // not "300", and the earlier place of 200 still counts
	look(postgres.Horizon{}) // of a standby
	want(2999, "200")
	want(3000, "300")
	h.forget(2500)
	want(2500, "200")
	h.start(postgres.Horizon{})
	want(9000, "")
}

// While the position stands still, only so many are kept, and what is left still counts.
func TestHorizonsAreLimited(t *testing.T) {
	var h horizons
	for i := range uint64(10 * maxHorizons) {
		h.propose(postgres.Horizon{XMin: i + 1, At: lsn(i + 1)})
		h.accept()
	}
	if len(h.list) > maxHorizons {
		t.Errorf("%d horizons are kept", len(h.list))
	}
	if got := h.before(10 * maxHorizons); got == "" {
		t.Error("none is left")
	}
	for _, each := range h.list {
		if each.XMin != uint64(each.At) {
			t.Errorf("%v is none of those that were added", each)
		}
	}
}
