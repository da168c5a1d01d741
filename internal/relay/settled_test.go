package relay

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// A condition is settled no more once a relay has run without it, which may have dropped events, or has skipped some.
func TestClaimUnsettles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		position cdc.Position
		want     string
	}{
		"the condition is not configured": {"start", "b"},
		"the source begins elsewhere":     {"before", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &fakes{stored: &cdc.Checkpoint{Settled: "a b", Progress: cdc.Progress{Position: c.position}}}
				o := options()
				o.Conditions = []string{"b", "c"}
				mustDrive(t, f, o)
				if f.stored.Settled != c.want {
					t.Errorf("claimed with %q, want %q", f.stored.Settled, c.want)
				}
			})
		})
	}
}

// settler is a Maintainer that settles a condition.
type settler string

func (s settler) Run(ctx context.Context, kept cdc.Kept) {
	kept.Settle(string(s))
	<-ctx.Done()
}

// With exactly-once delivery a relay commits no position while there are no events. Rows that are written while it is stopped must not
// be unproven.
func TestSettledIsCommittedAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kafka, f := &committer{}, &fakes{durable: make(chan cdc.Durable), id: cdc.Source{Slot: "x"}}
		r := New(options(), Stages{Source: f, Router: f, Sink: f, Checkpointer: f, Committer: kafka, Maintainer: settler("c")}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		if err := runFor(t, r, time.Hour); err != nil || kafka.last.Settled != "c" || f.stored.Settled != "c" {
			t.Errorf("committed %q, stored %q: %v", kafka.last.Settled, f.stored.Settled, err)
		}
	})
}
