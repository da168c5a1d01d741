package faults

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// letterPair is a leader and a standby with dead letters of three keys, and a configuration that routes them.
type letterPair struct {
	*cdctest.Rig

	t                      testing.TB
	standby                *cdctest.Relay
	records                *letterLog
	retried, dropped, last *cdctest.Event
}

func newLetterPair(tb testing.TB, s source, delivery cdctest.Delivery) *letterPair {
	tb.Helper()
	r := letterRig(tb, s, func(o *cdctest.RigOptions) { o.Checkpoint, o.Delivery = cdctest.InRedis, delivery })
	r.Start()
	p := &letterPair{Rig: r, t: tb, retried: letter(r, "retried"), dropped: letter(r, "dropped"), last: letter(r, "last")}
	r.Exclude(p.dropped)
	awaitCounts(r, "map[held:9 unroutable:3]")
	routeStrays(r)
	r.Kill()
	r.Start()
	p.standby = r.Second()
	startStandby(tb, r, p.standby)
	p.records = newLetterLog(tb, r)
	return p
}

// freeze stops the leader within a retry, whose command is killed.
func (p *letterPair) freeze() {
	ctx, kill := context.WithCancel(p.Within(time.Minute))
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		_, _ = p.Relay.Command(ctx, "dlq", "retry", p.retried.ID.String()) // it is killed
	}()
	p.records.await("R1", func(k *kgo.Record) bool { return retryingSteps()[0].is(p.Rig, p.retried, k) })
	p.Must(p.Relay.Signal(syscall.SIGSTOP))
	p.Fault("SIGSTOP")
	kill()
	<-asked
}

// replace resolves letters with the standby, and thaws the old leader, which stands by from then on.
func (p *letterPair) replace() {
	frozen := p.Relay
	p.Must(p.standby.AwaitLog(p.Within(time.Minute), "msg=leading"))
	asking := &commands{t: p.t, r: p.Rig, late: true} // on a busy machine the retry may have ended before the freeze
	asking.start("retry", p.retried.ID.String())
	asking.start("drop", p.dropped.ID.String())
	asking.running.Wait()
	p.Append("last", 10)
	awaitCounts(p.Rig, "map[held:13 unroutable:1]")
	p.Must(frozen.Signal(syscall.SIGCONT))
	if p.Delivery == cdctest.ExactlyOnce {
		p.Must(frozen.AwaitLog(p.Within(time.Minute), `msg="standing by"`))
	} else {
		p.AwaitExit(time.Minute, 4)
		p.Must(frozen.Start(p.t.Context()))
		p.Must(frozen.AwaitLog(p.Within(time.Minute), `msg="standing by"`))
	}
	wantCounts(p.Rig, "map[held:13 unroutable:1]", cdctest.Resurrected)
	p.Relay, p.standby = p.standby, frozen
}

// kill kills the leader within a retry, which the standby finishes.
func (p *letterPair) kill() {
	asking := &commands{t: p.t, r: p.Rig}
	asking.start("retry", p.last.ID.String())
	p.records.await("R3", func(k *kgo.Record) bool { return retryingSteps()[2].is(p.Rig, p.last, k) })
	p.Kill()
	p.Relay = p.standby
	asking.running.Wait()
	awaitCounts(p.Rig, "map[]")
	p.Append("last", 10)
	p.Verify()
}

// A leader is frozen while it publishes letters again. The standby has the keys held, resolves the letters and answers the commands.
// The old leader, thawed, publishes nothing and changes nothing in the letters. So it is after a SIGKILL.
//
//covers:all 6 35 events both
func TestTakeoverOfDeadLetters(t *testing.T) {
	t.Parallel()
	var pairs []*letterPair
	for name, s := range sources() {
		for _, d := range deliveries() {
			pairs = append(pairs, newLetterPair(ofSource{t, name + "/" + string(d)}, s, d))
		}
	}
	for _, p := range pairs {
		p.freeze()
	}
	for _, p := range pairs {
		p.replace()
	}
	for _, p := range pairs {
		p.kill()
	}
}
