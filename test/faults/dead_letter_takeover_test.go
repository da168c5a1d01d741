package faults

import (
	"bytes"
	"context"
	"fmt"
	"strings"
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

// A drop is asked for while a retry publishes the same letters, and the leader is killed as soon as some are resolved. The drop reports the
// letters that it has dropped, and no published one, when the standby answers it.
//
//covers:postgres 6 35 events both
func TestDropDuringARetryCountsDroppedLetters(t *testing.T) {
	t.Parallel()
	postgres, ok := sources()["postgres"]
	if !ok {
		t.Skip("not chosen")
	}
	for _, d := range deliveries() {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			r := letterRigWith(t, postgres, func(o *cdctest.RigOptions) { o.Checkpoint, o.Delivery = cdctest.InRedis, d }, nil)
			r.Start()
			var all []*cdctest.Event
			for i := range 12 {
				all = append(append(all, r.AppendAs(fmt.Sprint(i), 1, stray)...), r.Append(fmt.Sprint(i), 20)...)
			}
			r.AwaitSaved(r.Append("saved", 1))
			awaitCounts(r, "map[held:240 unroutable:12]")
			routeStrays(r)
			r.Kill()
			r.Start()
			standby := r.Second()
			startStandby(t, r, standby)
			claimedDrops(t, r, standby, all)
			r.Verify()
		})
	}
}

// claimedDrops drops letters during a retry, whose leader is killed, and excludes those that the drop has dropped.
func claimedDrops(t *testing.T, r *cdctest.Rig, standby *cdctest.Relay, all []*cdctest.Event) {
	t.Helper()
	records := newLetterLog(t, r)
	asked := func(do, text string) func(*kgo.Record) bool {
		return func(k *kgo.Record) bool {
			return strings.HasPrefix(string(k.Key), "ask/") && bytes.Contains(k.Value, []byte(`"do":"`+do)) && bytes.Contains(k.Value, []byte(text))
		}
	}
	relay, ctx := r.Relay, r.Within(time.Minute)
	start := func(do string) (out chan string) {
		out = make(chan string, 1)
		go func() {
			text, _ := relay.Command(ctx, "dlq", do, "--all", "--yes") // an error says that the other command has resolved some
			out <- text
		}()
		return out
	}
	retry := start("retry")
	records.await("the retry", asked("retry", ""))
	drop := start("drop")
	records.await("a resolved letter", func(k *kgo.Record) bool {
		return bytes.Contains(k.Value, []byte(`"done":"`)) && k.Topic == indexTopic(r)
	})
	r.Kill()
	r.Relay = standby
	<-retry
	text, said := <-drop, 0
	_, end, _ := strings.Cut(text, "dropped: ") // behind its progress
	if _, err := fmt.Sscanf(end, "%d dead letter", &said); err == nil {
		records.await("the answer", asked("drop", `"state":"done"`))
	}
	_, _ = r.Relay.Command(r.Within(time.Minute), "dlq", "retry", "--all", "--yes") // there may be no letter left
	awaitCounts(r, "map[]")
	r.Must(r.Reader.CatchUp(r.Within(time.Minute)))
	dropped := 0
	for _, e := range all {
		for _, k := range records.seen {
			if inIndex(`"done":"dropped"`)(r, e, k) {
				dropped++
				if r.Delivery == cdctest.ExactlyOnce || !r.Reader.Has(e.ID) { // at least once: it may have been killed before it noted that it was published
					r.Exclude(e)
				}
				break
			}
		}
	}
	t.Logf("dropped %d of %d letters: %s", dropped, len(all), text)
	if said != dropped {
		r.Violation(cdctest.Phantom, "the drop says that it has dropped %d letters, and has dropped %d: %s", said, dropped, text)
	}
}
