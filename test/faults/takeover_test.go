package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// pairOf starts a leader and a standby.
func pairOf(t *testing.T, db cdctest.Database, change func(*cdctest.RigOptions)) (*cdctest.Rig, *cdctest.Relay) {
	t.Helper()
	r := newRig(t, db, cdctest.InRedis, change)
	r.Start()
	standby := r.Second()
	startStandby(t, r, standby)
	return r, standby
}

func startStandby(tb testing.TB, r *cdctest.Rig, standby *cdctest.Relay) {
	tb.Helper()
	r.Must(standby.Start(tb.Context()))
	r.Must(standby.AwaitLog(r.Within(time.Minute), `msg="standing by"`))
}

// Two relays are killed, frozen and stopped in turn under load, and each comes back as the standby: it never takes the lead from a leader
// that lives, however often it is killed and started again. Once a frozen leader goes on, nothing of it arrives in Kafka or in the
// checkpoint: with at-least-once delivery it ends, with exactly-once delivery it stands by.
//
//covers:all 1 6 7 events both
//covers:all 6 exit
func TestTakeover(t *testing.T) {
	inBothModes(t, func(t *testing.T, s source, delivery func(*cdctest.RigOptions)) {
		r, standby := pairOf(t, s.open(t), delivery)
		r.Load(cdctest.Workload{})
		for i := range 9 {
			r.AwaitProgress(100)
			if i%2 == 0 {
				standby.Kill()
				startStandby(t, r, standby)
				r.AwaitProgress(1)
			}
			from := len(standby.Log()) // it may have led before
			switch i % 3 {
			case 0:
				r.Kill()
			case 1:
				r.Must(r.Relay.Signal(syscall.SIGSTOP))
				r.Fault("SIGSTOP")
			default: // repeats nothing: the frozen leader has not moved the position back
				r.Must(r.Relay.Signal(syscall.SIGTERM))
			}
			awaitLogBehind(r, standby, from, "msg=leading")
			r.AwaitProgress(100)
			comesBack(t, r, i%3 == 1, i%3 == 2)
			r.Relay, standby = standby, r.Relay
		}
		if r.Delivery == cdctest.ExactlyOnce {
			once(t, r)
		} else {
			r.Verify()
		}
	})
}

// comesBack waits until the leader that was replaced stands by.
func comesBack(t *testing.T, r *cdctest.Rig, frozen, stopped bool) {
	t.Helper()
	switch {
	case frozen:
		from := len(r.Relay.Log())
		r.Must(r.Relay.Signal(syscall.SIGCONT))
		if r.Delivery == cdctest.ExactlyOnce {
			awaitLogBehind(r, r.Relay, from, `msg="standing by"`)
			return
		}
		says(t, r.AwaitExit(time.Minute, 4), "another relay")
	case stopped:
		r.AwaitExit(time.Minute, 0)
	}
	startStandby(t, r, r.Relay)
}

func awaitLogBehind(r *cdctest.Rig, relay *cdctest.Relay, from int, text string) {
	r.Await("a relay to log "+text, func(context.Context) (bool, error) { return strings.Contains(relay.Log()[from:], text), nil })
}

// A leader is frozen, its standby leads for a while and ends. Once the leader goes on, it was superseded, or leads again: no supervisor
// must keep it down. With the slot alone the fence in Kafka tells that it was not moved by hand, which TestLostSlot has.
//
//covers:postgres 6 events both
func TestFrozenLeaderOutlivesItsStandby(t *testing.T) {
	eachDelivery(t, func(t *testing.T, d cdctest.Delivery) {
		t.Parallel()
		r := newRig(t, newPostgres(t), cdctest.SlotOnly, func(o *cdctest.RigOptions) { o.Delivery = d })
		r.Start()
		standby := r.Second()
		startStandby(t, r, standby)
		r.AwaitEvents(r.Append("k", 10))
		r.FaultUnbounded("SIGSTOP")
		r.Must(r.Relay.Signal(syscall.SIGSTOP))
		r.Must(r.DB.CutLeader(r.Within(time.Minute)))
		r.Must(standby.AwaitLog(r.Within(time.Minute), "msg=leading"))
		r.AwaitEvents(r.Append("k", 10))
		r.Must(standby.Signal(syscall.SIGTERM))
		_, err := standby.Wait(r.Within(time.Minute))
		r.Must(err)
		missing := r.Append("k", 10)
		r.Must(r.Relay.Signal(syscall.SIGCONT))
		r.Await("the events", func(ctx context.Context) (bool, error) {
			_, distinct := r.Reader.Count()
			return distinct >= 30, revive(ctx, r.Relay)
		})
		r.AwaitEvents(missing)
		r.Verify()
	})
}

// Only the connection that makes a relay the leader is cut, again and again. One of the two leads on from the checkpoint,
// and a relay that was superseded says so.
//
//covers:all 7 31 events
func TestLeadIsCut(t *testing.T) {
	onEach(t, func(t *testing.T, s source) {
		r, standby := pairOf(t, s.open(t), nil)
		r.Load(cdctest.Workload{})
		for range 8 {
			_, have := r.Reader.Count()
			r.Await("more events", func(ctx context.Context) (bool, error) {
				_, now := r.Reader.Count()
				return now >= have+500, errors.Join(revive(ctx, r.Relay), revive(ctx, standby))
			})
			r.LeadIsCut()
			r.Must(r.DB.CutLeader(r.Within(time.Minute)))
		}
		r.AwaitProgress(500)
		oneLeads(t, r, standby)
		r.Verify()
	})
}

// revive starts a relay that ended because it was superseded.
func revive(ctx context.Context, relay *cdctest.Relay) error {
	if relay.Running() {
		return nil
	}
	exit, err := relay.Wait(ctx)
	if err != nil || exit.Code != 4 {
		return fmt.Errorf("exit code %d: %s: %w", exit.Code, lastWords(exit.Log), err)
	}
	return relay.Start(ctx)
}
