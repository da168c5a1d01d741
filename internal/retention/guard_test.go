package retention

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// A partition that was taken out and is relayed stays while the guard says so, and the pass says why; then it is dropped.
func TestGuardKeepsPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{parts: days(-9, 1)}
		f.parts[0].Out = true
		f.relayed.Store(true)
		needed := errors.New("a letter needs them")
		guard := func(context.Context) error { return needed }
		open := func(context.Context) ([]Table, func(), error) { return []Table{f}, func() {}, nil }
		pass := func() error {
			return New(Options{TTL: 8 * day, Drop: true}, open, guard, slog.New(slog.DiscardHandler), nil).Maintain(t.Context())
		}
		if err := pass(); !errors.Is(err, needed) || len(f.log) > 0 {
			t.Errorf("error %v, done %q, want nothing done", err, f.log)
		}
		needed = nil
		if err := pass(); err != nil || strings.Join(f.log, ", ") != "drop 1223" {
			t.Errorf("error %v, done %q", err, f.log)
		}
	})
}

// Rows that are relayed stay while the guard says so, and it is asked after the position has passed them: only then do they have their
// letters.
func TestGuardKeepsRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		needed := errors.New("a letter needs them")
		since := time.Now()
		passed := func() bool { return time.Since(since) >= time.Second }
		r := &rows{n: 3, passed: passed}
		guard := func(context.Context) error {
			if !passed() {
				t.Error("the guard was asked before the position had passed the rows")
			}
			return needed
		}
		open := func(context.Context) ([]Rows, func(), error) { return []Rows{r}, func() {}, nil }
		p := NewPurger(PurgeOptions{Batch: 10}, open, guard, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		if err := p.Purge(t.Context()); !errors.Is(err, needed) || r.n != 3 {
			t.Errorf("error %v, %d rows left, want all", err, r.n)
		}
		needed = nil
		if err := p.Purge(t.Context()); err != nil || r.n != 0 {
			t.Errorf("error %v, %d rows left, want none", err, r.n)
		}
	})
}

// What is listed for a dry run is kept as by a pass, and the guard is not asked about what is not relayed.
func TestGuardedList(t *testing.T) {
	f := &fake{parts: []cdc.Partition{{Name: "a", Out: true}}}
	asked := 0
	guard := Guard(func(context.Context) error { asked++; return errors.New("needed") })
	if parts, _, err := guard.List(t.Context(), f); err != nil || asked != 0 || parts[0].Kept != nil {
		t.Errorf("not relayed: %v, %v, asked %d times", parts, err, asked)
	}
	f.relayed.Store(true)
	if parts, _, err := guard.List(t.Context(), f); err != nil || parts[0].Relayed || parts[0].Kept == nil {
		t.Errorf("relayed: %v, %v", parts, err)
	}
}
