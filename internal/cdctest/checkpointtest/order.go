package checkpointtest

import (
	"math"
	"sync"

	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// newer is the stores' rule, implemented independently.
func newer(a, b cdc.Checkpoint) bool {
	return a.Generation > b.Generation || a.Generation == b.Generation && a.Sequence > b.Sequence
}

// anyInterleaving lets two runs save in any order, with saves that arrive late or twice, and compares the outcome of each
// with a model.
func (r rules) anyInterleaving() {
	t := r.t
	pair := r.pair()
	// Also where doubles stop being exact, where a digit is added, and at the end.
	bases := rapid.OneOf(rapid.Uint64Range(0, 1<<60), rapid.SampledFrom([]uint64{9, 1 << 53, 999_999_999_999_999_999, math.MaxUint64 - 21}))
	rapid.Check(t, func(draw *rapid.T) {
		r.Put(t, nil)
		var model *cdc.Checkpoint
		base := bases.Draw(draw, "base")
		for range rapid.IntRange(1, 30).Draw(draw, "saves") {
			run := rapid.Uint64Range(0, 1).Draw(draw, "run")
			next := at(base+run, rapid.Uint64Range(base, base+20).Draw(draw, "sequence"))
			accept := model == nil || newer(next, *model) || equal(next, *model)
			err := pair[run].Save(t.Context(), next)
			if accept != (err == nil) || !accept && !fenced(err) {
				draw.Fatalf("(%d, %d) over %v: %v", next.Generation, next.Sequence, model, err)
			}
			if accept {
				model = &next
			}
			if got, _, err := pair[1-run].Load(t.Context()); err != nil || !equal(got, *model) {
				draw.Fatalf("stored %+v, want %+v, error %v", got, *model, err)
			}
		}
	})
}

// concurrent lets two runs save concurrently while a reader verifies that the stored checkpoint never goes back.
func (r rules) concurrent() {
	t := r.t
	const saves = 200
	pair := r.pair()
	mustSave(t, pair[0], at(1, 0))
	var wg sync.WaitGroup
	for run, s := range pair {
		wg.Go(func() {
			for n := uint64(1); n <= saves; n++ {
				if err := s.Save(t.Context(), at(uint64(run)+1, n)); err != nil && !fenced(err) {
					t.Errorf("save: %v", err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	last := at(0, 0)
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		got := mustLoad(t, pair[0])
		if newer(last, got) {
			t.Fatalf("went back from (%d, %d) to (%d, %d)", last.Generation, last.Sequence, got.Generation, got.Sequence)
		}
		last = got
	}
	if !equal(last, at(2, saves)) {
		t.Errorf("ended with (%d, %d)", last.Generation, last.Sequence)
	}
}
