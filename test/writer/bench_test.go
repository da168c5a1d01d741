package writer_test

import (
	"testing"

	"github.com/cdc-relay/cdc-relay/test/writerbench"
)

// ratioRounds is enough for a median on a shared machine.
const ratioRounds = 20

// BenchmarkRatios compares the cost of one event with a hand-written INSERT, and of many events in one call with one event
// each, and checks the limits. make bench-writer runs it alone, because other tests would disturb it.
func BenchmarkRatios(b *testing.B) {
	for _, e := range engines { // not in parallel, which would disturb the figures
		b.Run(e.String(), func(b *testing.B) {
			drivers := e.drivers(newDatabase(b, e, daily("outbox")).name)
			for b.Loop() {
				holdRatios(b, drivers)
			}
		})
	}
}

func holdRatios(b *testing.B, drivers []writerbench.Driver) {
	b.Helper()
	ratios, err := writerbench.Measure(b.Context(), drivers, ratioRounds)
	if err != nil {
		b.Fatal(err)
	}
	b.Log("\n" + writerbench.Table(ratios))
	for _, r := range ratios {
		if err := r.Check(); err != nil {
			b.Error(err)
		}
	}
}

// TestMeasure runs one round of the benchmark's code.
func TestMeasure(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		t.Helper()
		db := newDatabase(t, e, daily("outbox"))
		drivers := e.drivers(db.name)
		ratios, err := writerbench.Measure(t.Context(), drivers, 1)
		must(t, err)
		for _, r := range ratios {
			if r.ByHand <= 0 || r.One <= 0 || r.PerEvent <= 0 {
				t.Errorf("a figure is missing: %+v", r)
			}
		}
		if n := count(t, db, "outbox"); len(ratios) != len(drivers) || n != 0 {
			t.Errorf("%d ratios, and %d rows were left", len(ratios), n)
		}
	})
}
