package cdctest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// The rig's faults. Those that last take a mean duration and draw up to twice as much. While servers are away, positions
// may not be saved, so a kill that follows may repeat any number of events.

// KillRelay kills the relay with SIGKILL and starts it again.
func (r *Rig) KillRelay() Action {
	return Action{Name: "kill the relay", Do: func(ctx context.Context, _ *rand.Rand) error {
		return r.kill(ctx)
	}}
}

func (r *Rig) kill(ctx context.Context) error {
	if !r.Relay.Running() {
		return fmt.Errorf("the relay had already ended: %s", r.Relay.LogTail(5))
	}
	r.AnyFault("SIGKILL") // before: a standby may have repeated events by the time the kill is known to have succeeded
	r.Relay.Kill()
	return r.Relay.Start(ctx)
}

// AnyFault is Fault, or FaultUnbounded if a server was away since the last fault or shortly before.
func (r *Rig) AnyFault(name string) {
	if r.unsettled() {
		r.disturbed.Store(false)
		r.FaultUnbounded(name)
		return
	}
	r.Fault(name)
}

// settling is the longest time after which a relay has saved again, or has been replaced, once all servers are back.
const settling = 30 * time.Second

func (r *Rig) unsettled() bool {
	return r.disturbed.Load() || time.Since(time.Unix(0, r.back.Load())) < settling
}

// Disturbing wraps a fault of a server.
func (r *Rig) Disturbing(a Action) Action {
	do := a.Do
	a.Do = func(ctx context.Context, random *rand.Rand) error {
		r.disturbed.Store(true)
		err := do(ctx, random)
		r.disturbed.Store(true) // a kill during the fault does not end it
		r.back.Store(time.Now().UnixNano())
		return err
	}
	return a
}

// Kill kills the relay with SIGKILL and leaves it down.
func (r *Rig) Kill() {
	r.tb.Helper()
	if !r.Relay.Running() {
		r.tb.Fatalf("the relay had already ended: %s", r.Relay.LogTail(5))
	}
	r.Fault("SIGKILL") // before, as in kill
	r.Relay.Kill()
}

// TermRelay stops the relay with SIGTERM and starts it again.
func (r *Rig) TermRelay() Action {
	return Action{Name: "stop the relay with SIGTERM", Do: func(ctx context.Context, _ *rand.Rand) error {
		if err := r.Relay.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		exit, err := r.Relay.Wait(ctx)
		if err != nil {
			return err
		}
		if exit.Code != 0 {
			return fmt.Errorf("exit code %d after SIGTERM", exit.Code)
		}
		r.stopped(exit, r.unsettled())
		return r.Relay.Start(ctx)
	}}
}

// stopped notes the end of a process. It may repeat events if a server was away, or if a slow machine has let it give up waiting
// for acknowledgements.
func (r *Rig) stopped(exit Exit, away bool) {
	if away || strings.Contains(exit.Log, "not everything in flight") {
		r.AnyFault("stop")
	}
	r.announcing.Lock()
	defer r.announcing.Unlock()
	r.stops = append(r.stops, Fault{Name: "stop", At: time.Now()})
}

// outage takes a server away, and brings it back after a time. Each of the two is given the same broker, drawn at random.
func (r *Rig) outage(name string, mean time.Duration, away, back func(context.Context, *testenv.Broker) error) Action {
	return r.Disturbing(Action{Name: name, Do: func(ctx context.Context, random *rand.Rand) error {
		brokers := r.Kafka.Brokers()
		b := brokers[random.IntN(len(brokers))]
		if err := away(ctx, b); err != nil {
			return err
		}
		pause(ctx, time.Duration(random.Int64N(int64(2*mean)+1)))
		return back(ctx, b)
	}})
}

// RestartDatabase stops the database and starts it again.
func (r *Rig) RestartDatabase(how Stop, mean time.Duration) Action {
	return r.outage("restart the database: "+string(how), mean, func(ctx context.Context, _ *testenv.Broker) error {
		stopping, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		return r.DB.Stop(stopping, how)
	}, func(ctx context.Context, _ *testenv.Broker) error { return r.DB.Start(ctx) })
}

// KillBroker kills a broker and starts it again.
func (r *Rig) KillBroker(mean time.Duration) Action {
	return r.outage("kill a broker", mean, func(_ context.Context, b *testenv.Broker) error {
		b.Kill()
		return nil
	}, func(ctx context.Context, b *testenv.Broker) error {
		if err := b.Launch(ctx); err != nil {
			return err
		}
		return r.Kafka.AwaitHealthy(ctx)
	})
}

// FreezeBroker freezes a broker (SIGSTOP).
func (r *Rig) FreezeBroker(mean time.Duration) Action {
	return r.outage("freeze a broker", mean,
		func(_ context.Context, b *testenv.Broker) error { return b.Pause() },
		func(_ context.Context, b *testenv.Broker) error { return b.Resume() })
}

// FreezeRedis freezes Redis (SIGSTOP). Until a position is saved again, the number of repeats is not bounded.
func (r *Rig) FreezeRedis(mean time.Duration) Action {
	return r.outage("freeze Redis", mean,
		func(context.Context, *testenv.Broker) error { return r.Redis.Pause() },
		func(context.Context, *testenv.Broker) error { return r.Redis.Resume() })
}

// FlushRedis deletes everything in Redis.
func (r *Rig) FlushRedis() Action {
	return r.Disturbing(Action{Name: "flush Redis", Do: func(ctx context.Context, _ *rand.Rand) error {
		_, err := r.Redis.Do(ctx, "FLUSHALL")
		return err
	}})
}
