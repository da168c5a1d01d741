package faults

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// SIGKILL at random moments under load, repeatedly.
//
//covers:all 1 events both
//covers:all 2 3 events exactly-once
func TestKillUnderLoad(t *testing.T) {
	onEach(t, func(t *testing.T, s source) {
		for _, tt := range []struct {
			checkpoint cdctest.Checkpoint
			delivery   cdctest.Delivery
			kills      int
			apart      time.Duration // at most
		}{
			{cdctest.InRedis, cdctest.AtLeastOnce, 15, 1500 * time.Millisecond},
			{cdctest.InFile, cdctest.ExactlyOnce, 10, 1500 * time.Millisecond},
			// A slot is confirmed once a second, so the runs are longer.
			{cdctest.SlotOnly, cdctest.AtLeastOnce, 6, 6 * time.Second},
		} {
			if !s.can(tt.checkpoint) {
				continue
			}
			t.Run(string(tt.checkpoint), func(t *testing.T) {
				t.Parallel()
				if s.name != "postgres" {
					tt.kills = (tt.kills + 1) / 2
				}
				r := newRig(t, s.open(t), tt.checkpoint, func(o *cdctest.RigOptions) { o.Delivery = tt.delivery })
				r.Start()
				r.Load(cdctest.Workload{})
				nemesis := cdctest.NewNemesis(r.Seed, r.KillRelay())
				for range tt.kills {
					r.Delay(tt.apart)
					r.Must(nemesis.Step(t.Context()))
				}
				if tt.delivery == cdctest.ExactlyOnce {
					once(t, r)
				} else {
					r.Verify()
				}
			})
		}
	})
}

// SIGKILL while saves are slow: at most the window is repeated.
//
//covers:all 2 events
func TestWindowBoundsRepeats(t *testing.T) {
	onEach(t, func(t *testing.T, s source) {
		way := testenv.Proxy(t, shared.redis.Addr())
		r := newRig(t, s.open(t), cdctest.InRedis, func(o *cdctest.RigOptions) {
			o.Settings = map[string]any{"checkpoint.redis.addrs": []string{way.Addr()}}
		})
		var backlog []*cdctest.Event
		for i := range 50 {
			backlog = append(backlog, r.Append(fmt.Sprintf("backlog%d", i%10), 200)...)
		}
		way.Delay(testenv.Responses, 500*time.Millisecond)
		r.Start()
		r.Must(r.Reader.AwaitEvents(r.Within(time.Minute), r.Window+1)) // a save has succeeded
		way.Swallow(testenv.Requests)                                   // no later save reaches Redis
		_, last, err := r.Saved(t.Context())
		r.Must(err)
		saved := slices.IndexFunc(backlog, func(e *cdctest.Event) bool { return e.ID.String() == last })
		if saved+1 == len(backlog) {
			t.Fatal("everything was saved before the kill")
		}
		r.AwaitEvents(backlog[saved+1 : min(saved+1+r.Window-400, len(backlog))]) // less than two batches are left
		r.Hold(300 * time.Millisecond)                                            // in which a window without a bound publishes the rest
		r.Kill()
		way.Heal(t.Context())
		r.Start()
		if report := r.Verify(); report.Duplicates == 0 {
			t.Error("nothing was repeated: the kill did not hit the gap")
		}
	})
}
