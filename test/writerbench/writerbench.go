// Package writerbench compares the writer with hand-written INSERTs.
package writerbench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The limits apply to any machine, because both sides of each ratio are measured in the same run.
const (
	MaxOverhead = 1.10 // one event to a hand-written INSERT
	MinBatching = 8.0  // 100 calls with one event to one call with 100, on PostgreSQL

	// MinMySQLBatching is lower, because an INSERT of one row is cheap there.
	MinMySQLBatching = 3.0
)

// batch is the number of events for the batching ratio.
const batch = 100

// Ratio is the result of a driver: medians of the rounds, times in microseconds for each event.
type Ratio struct {
	Driver   string  `json:"driver"`
	ByHand   float64 `json:"by_hand_us"`    // an INSERT by hand
	One      float64 `json:"one_us"`        // Append of one event
	PerEvent float64 `json:"of_hundred_us"` // an event of an Append of 100
	Overhead float64 `json:"overhead"`      // One over ByHand
	Batching float64 `json:"batching"`      // One over PerEvent
	Reach    float64 `json:"reach"`         // what Batching must be at least
}

// Check returns an error for each limit that is not met.
func (r *Ratio) Check() error {
	var short []error
	if r.Overhead > MaxOverhead {
		short = append(short, fmt.Errorf("%s: one event costs %.2f times the INSERT by hand, the limit is %.2f", r.Driver, r.Overhead, MaxOverhead))
	}
	if r.Batching < r.Reach {
		short = append(short, fmt.Errorf("%s: 100 events in one call are %.1f times cheaper each, the limit is %.1f", r.Driver, r.Batching, r.Reach))
	}
	return errors.Join(short...)
}

// Table returns the ratios as text for people.
func Table(ratios []Ratio) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-20s %12s %12s %14s %10s %10s\n", "driver", "by hand", "Append of 1", "of 100, each", "overhead", "batching")
	for i := range ratios {
		r := &ratios[i]
		fmt.Fprintf(&b, "%-20s %9.1f µs %9.1f µs %11.1f µs %8.2f x %8.1f x\n", r.Driver, r.ByHand, r.One, r.PerEvent, r.Overhead, r.Batching)
	}
	return b.String()
}

// Measure appends to the table outbox, which must exist, in transactions that it rolls back.
func Measure(ctx context.Context, drivers []Driver, rounds int) ([]Ratio, error) {
	var ratios []Ratio
	for _, d := range drivers {
		r, err := measure(ctx, d, rounds)
		if err != nil {
			return nil, fmt.Errorf("measure %s: %w", d.Name, err)
		}
		ratios = append(ratios, r)
	}
	return ratios, nil
}

func measure(ctx context.Context, d Driver, rounds int) (Ratio, error) {
	s, err := d.Open(ctx)
	if err != nil {
		return Ratio{}, err
	}
	defer s.Close()
	const warmUp = 3 // to prepare statements, fill caches and settle plans
	var byHand, one, many, overhead, batching []float64
	for n := range warmUp + rounds {
		r, err := oneRound(ctx, s)
		if err != nil {
			return Ratio{}, err
		}
		if n < warmUp {
			continue
		}
		byHand = append(byHand, r.byHand.Seconds()/batch)
		one = append(one, r.one.Seconds()/batch)
		many = append(many, r.many.Seconds()/batch)
		overhead = append(overhead, r.one.Seconds()/r.byHand.Seconds())
		batching = append(batching, r.one.Seconds()/r.many.Seconds())
	}
	return Ratio{
		Driver: d.Name, ByHand: micros(byHand), One: micros(one), PerEvent: micros(many),
		Overhead: median(overhead), Batching: median(batching), Reach: d.Batching,
	}, nil
}

// round is the time of 100 events in each of the three ways.
type round struct{ byHand, one, many time.Duration }

// oneRound alternates between the ways with each event, so that a disturbance affects all of them.
func oneRound(ctx context.Context, s Session) (r round, err error) {
	if err := s.Begin(ctx); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Rollback(ctx)) }()
	for range batch {
		e := event()
		if err := timed(&r.byHand, func() error { return s.Insert(ctx, e) }); err != nil {
			return r, err
		}
		if err := timed(&r.one, func() error { return s.Append(ctx, e) }); err != nil {
			return r, err
		}
	}
	all := Events(batch)
	return r, timed(&r.many, func() error { return s.Append(ctx, all...) })
}

// timed adds the duration of f to sum.
func timed(sum *time.Duration, f func() error) error {
	start := time.Now()
	err := f()
	*sum += time.Since(start)
	return err
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

func micros(seconds []float64) float64 { return median(seconds) * 1e6 }
