package writer_test

import (
	"context"
	"os"
	"strconv"
	"testing"

	"github.com/cdc-relay/cdc-relay/test/writerbench"
)

// TestRatios is the benchmark of the writer: what one event costs beside an INSERT by hand, and what many in
// one call save. make bench-writer runs it; beside other tests the figures would tell of those.
func TestRatios(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("CDC_RELAY_BENCH_ROUNDS"))
	if err != nil {
		t.Skip("a benchmark with limits: make bench-writer sets CDC_RELAY_BENCH_ROUNDS")
	}
	for _, e := range engines { // one after the other: they would disturb each other
		t.Run(e.String(), func(t *testing.T) {
			db := newDatabase(t, e, daily("outbox"))
			ratios, err := writerbench.Measure(t.Context(), e.drivers(db.name), rounds)
			if err != nil {
				t.Fatal(err)
			}
			t.Log("\n" + writerbench.Table(ratios))
			for _, r := range ratios {
				if err := r.Check(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestMeasure runs the benchmark's own code, a round of it.
func TestMeasure(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		t.Helper()
		db := newDatabase(t, e, daily("outbox"))
		drivers := e.drivers(db.name)
		ratios, err := writerbench.Measure(t.Context(), drivers, 1)
		if err != nil {
			t.Fatal(err)
		}
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

func BenchmarkInsertByHand(b *testing.B) {
	benchmark(b, func(ctx context.Context, s writerbench.Session) error { return s.Insert(ctx, writerbench.Events(1)[0]) })
}

func BenchmarkAppendOne(b *testing.B) {
	benchmark(b, func(ctx context.Context, s writerbench.Session) error { return s.Append(ctx, writerbench.Events(1)...) })
}

// BenchmarkAppendHundred reports the time of 100 events.
func BenchmarkAppendHundred(b *testing.B) {
	benchmark(b, func(ctx context.Context, s writerbench.Session) error {
		return s.Append(ctx, writerbench.Events(100)...)
	})
}

func benchmark(b *testing.B, f func(context.Context, writerbench.Session) error) {
	b.Helper()
	var drivers []writerbench.Driver
	for _, e := range engines {
		drivers = append(drivers, e.drivers(newDatabase(b, e, daily("outbox")).name)...)
	}
	for _, d := range drivers {
		b.Run(d.Name, func(b *testing.B) {
			s, err := d.Open(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			if err := s.Begin(b.Context()); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := f(b.Context(), s); err != nil {
					b.Fatal(err)
				}
			}
			if err := s.Rollback(b.Context()); err != nil {
				b.Fatal(err)
			}
		})
	}
}
