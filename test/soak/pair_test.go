package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// pair is two relays of one database, of which one leads. It restarts a relay that exited for a reason that a fault
// explains, as systemd or Kubernetes would, and as an administrator would who restores a checkpoint.
type pair struct {
	rig    *cdctest.Rig
	relays [2]*cdctest.Relay
	redis  *failoverRedis
}

func newPair(t *testing.T, database string) *pair {
	t.Helper()
	redis := newFailoverRedis(t)
	r := newRig(t, database, redis)
	return &pair{rig: r, relays: [2]*cdctest.Relay{r.Relay, r.Second()}, redis: redis}
}

func (p *pair) start() {
	p.rig.Start()
	p.rig.Must(p.relays[1].Start(p.rig.Within(time.Minute)))
}

// relayFaults are the faults of a relay, which may lead or stand by. A standby may take over in each of them.
func (p *pair) relayFaults() []cdctest.Action {
	r := p.rig
	return []cdctest.Action{
		p.onRelay(r.KillRelay(), 4),
		p.onRelay(r.TermRelay(), 2),
		p.onRelay(p.freeze("freeze a relay", 3*time.Second), 2),
		p.onRelay(p.freeze("freeze a relay for longer than it may lead", 15*time.Second), 1),
		p.onRelay(p.cut(), 2),
	}
}

// onRelay revives both relays and lets the action happen to one of them.
func (p *pair) onRelay(a cdctest.Action, weight int) cdctest.Action {
	do := a.Do
	a.Weight = weight
	a.Do = func(ctx context.Context, random *rand.Rand) error {
		chosen := random.IntN(len(p.relays))
		if err := p.revive(ctx); err != nil {
			return err
		}
		p.rig.Relay = p.relays[chosen]
		if err := up(ctx, p.rig.Relay); err != nil || !p.rig.Relay.Running() {
			return err
		}
		return do(ctx, random)
	}
	return a
}

// killLeader kills the relay that leads, or one that starts if no relay leads, and calls end after the last kill.
func (p *pair) killLeader(kills int, end func()) cdctest.Action {
	kill := p.rig.KillRelay()
	return cdctest.Action{Name: "kill the leader", Do: func(ctx context.Context, random *rand.Rand) error {
		if err := p.revive(ctx); err != nil {
			return err
		}
		p.rig.Relay = p.relays[random.IntN(len(p.relays))]
		for _, relay := range p.relays {
			if leads, err := relay.Metric(ctx, "cdc_relay_leader"); err == nil && leads == 1 {
				p.rig.Relay = relay
			}
		}
		if !p.rig.Relay.Running() {
			return nil
		}
		if kills--; kills == 0 {
			end()
		}
		return kill.Do(ctx, random)
	}}
}

func (p *pair) freeze(name string, lasts time.Duration) cdctest.Action {
	return cdctest.Action{Name: name, Do: func(ctx context.Context, random *rand.Rand) error {
		p.rig.AnyFault(name)
		relay := p.rig.Relay
		if err := relay.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		sleep(ctx, lasts/2+time.Duration(random.Int64N(int64(lasts))))
		return relay.Signal(syscall.SIGCONT)
	}}
}

func (p *pair) cut() cdctest.Action {
	return cdctest.Action{Name: "cut the leader's connection", Do: func(ctx context.Context, _ *rand.Rand) error {
		p.rig.AnyFault("cut")
		if err := p.rig.DB.CutLeader(ctx); err != nil && !p.rig.DB.Away(err) {
			return err
		}
		return nil
	}}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// revive starts the relays that have ended.
func (p *pair) revive(ctx context.Context) error {
	for _, relay := range p.relays {
		if relay.Running() {
			continue
		}
		exit, err := relay.Wait(ctx)
		if err != nil {
			return err
		}
		if err := p.explained(ctx, exit); err != nil {
			return err
		}
		if err := relay.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// up waits until a relay logs: before that a signal may end it as any process.
func up(ctx context.Context, relay *cdctest.Relay) error {
	return cdctest.Await(ctx, "a relay to be up", func(context.Context) (bool, error) {
		return relay.Log() != "" || !relay.Running(), nil
	})
}

// explained returns an error unless a fault explains the exit: the relay was superseded, a server was away for too long at
// its start, or Redis has lost the only copy of the position, which then is restored.
func (p *pair) explained(ctx context.Context, exit cdctest.Exit) error {
	switch {
	case exit.Code == 4, strings.Contains(exit.Log, "startup_timeout"):
		return nil
	case exit.Code == 5 && strings.Contains(exit.Log, "position reset --skip-events"): // a Redis that forgot and a slot that was moved look alike
		out, err := p.rig.Relay.Command(ctx, "position", "reset", "--skip-events")
		if strings.Contains(out, "a relay runs") { // the other one was reset before
			return nil
		}
		return err
	case exit.Code == 5 && strings.Contains(exit.Log, "position set earliest"):
		p.rig.FaultUnbounded("the checkpoint was restored")
		return p.redis.restore(ctx, p.rig.RedisKey())
	}
	return fmt.Errorf("a relay has ended with exit code %d: %s", exit.Code, exit.Log)
}

var leadsLine = regexp.MustCompile(`(?m)^time=(\S+) .*msg=(leading .*)$`)

// events are the changes of the leader, from the logs of both relays.
func (p *pair) events() []cdctest.Step {
	var steps []cdctest.Step
	for i, relay := range p.relays {
		text, err := os.ReadFile(relay.LogPath())
		if err != nil {
			continue // a relay that was never started has none
		}
		for _, m := range leadsLine.FindAllSubmatch(text, -1) {
			if at, err := time.Parse(time.RFC3339Nano, string(m[1])); err == nil {
				steps = append(steps, cdctest.Step{At: at.Local(), Name: fmt.Sprintf("relay %d: %s", i+1, m[2])})
			}
		}
	}
	return steps
}

func (p *pair) leads() int { return len(p.events()) }
