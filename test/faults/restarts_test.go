package faults

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// The leader is frozen while Redis fails over to a copy of an earlier run. The standby takes over from that copy, and its
// generation is higher than that of the leader, which saves nothing once it goes on.
//
//covers:all 6 26 exit events
func TestFrozenLeaderAndForgetfulRedis(t *testing.T) {
	onEach(t, func(t *testing.T, s source) {
		r := newRig(t, s.open(t), cdctest.InRedis, nil)
		r.Start()
		r.AwaitSaved(r.Append("k", 10))
		old := inRedis(r, "GET")
		r.Must(r.TermRelay().Do(t.Context(), r.Random))
		r.Must(r.Relay.AwaitReady(r.Within(time.Minute)))
		standby := r.Second()
		startStandby(t, r, standby)
		r.Load(cdctest.Workload{})
		r.AwaitProgress(300)
		r.FaultUnbounded("Redis rolled back")
		r.Must(r.Relay.Signal(syscall.SIGSTOP))
		frozen := storedGeneration(t, r)
		inRedis(r, "SET", old)
		r.Await("the standby to lead, or to stop", func(context.Context) (bool, error) {
			return !standby.Running() || strings.Contains(standby.Log(), "msg=leading"), nil
		})
		if !standby.Running() { // the slot was confirmed since: a Redis that forgot and a slot that was moved look alike
			command(t, r, "position", "reset", "--skip-events")
			r.Must(standby.Start(t.Context()))
		}
		r.Must(standby.AwaitLog(r.Within(time.Minute), "msg=leading"))
		if now := storedGeneration(t, r); now <= frozen { // the leader would save over the standby's position once it goes on
			t.Fatalf("the standby leads in generation %d, and the frozen leader in %d", now, frozen)
		}
		r.AwaitProgress(300)
		r.Must(r.Relay.Signal(syscall.SIGCONT))
		r.AwaitExit(time.Minute, 4)
		r.Relay = standby
		r.AwaitProgress(300)
		r.Must(r.TermRelay().Do(t.Context(), r.Random)) // repeats nothing: the position did not move back
		r.AwaitProgress(300)
		r.Verify()
	})
}

var generation = regexp.MustCompile(`"generation":"(\d+)"`)

func storedGeneration(t *testing.T, r *cdctest.Rig) uint64 {
	t.Helper()
	stored := inRedis(r, "GET")
	m := generation.FindStringSubmatch(stored)
	if m == nil {
		t.Fatalf("no generation in %s", stored)
	}
	n, err := strconv.ParseUint(m[1], 10, 64)
	r.Must(err)
	return n
}
