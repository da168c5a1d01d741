package faults

import (
	"context"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// SIGTERM under load drains, saves and confirms: nothing is repeated at the next start.
//
//covers:all 5 events
func TestSigtermUnderLoad(t *testing.T) {
	onEach(t, func(t *testing.T, s source) {
		for _, checkpoint := range s.checkpoints(cdctest.InRedis, cdctest.SlotOnly) {
			t.Run(string(checkpoint), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, s.open(t), checkpoint, nil)
				r.Start()
				r.Load(cdctest.Workload{})
				for range 3 {
					r.AwaitProgress(500)
					r.Delay(300 * time.Millisecond)
					r.Must(r.TermRelay().Do(r.Within(time.Minute), r.Random))
				}
				r.Verify()
			})
		}
	})
}

// SIGTERM within a transaction: the position cannot be saved before its end, so it is published to its end.
//
//covers:all 5 events
func TestSigtermWithinATransaction(t *testing.T) {
	const rows = 20_000
	proxy := shared.kafka.Brokers()[0].Proxy()
	t.Cleanup(func() { proxy.Heal(t.Context()) })
	rigs := rigs(t, proxied)
	proxy.Delay(testenv.Responses, 100*time.Millisecond)
	for _, r := range rigs {
		r.Start()
		r.Largest(rows)
		r.Must(r.DB.InsertMany(r.Within(time.Minute), "large", rows, 100))
		r.AwaitProgress(r.Window)
		r.Must(r.TermRelay().Do(r.Within(time.Minute), r.Random))
		once(t, r)
	}
}

// A second signal ends a drain that cannot finish at once; nothing is lost.
//
//covers:all 5 exit events
func TestSecondSignalStopsAtOnce(t *testing.T) {
	rigs := rigs(t, func(o *cdctest.RigOptions) { o.Settings = map[string]any{"shutdown_timeout": "10m"} })
	for _, r := range rigs {
		r.Start()
		r.AwaitSaved(r.Append("before", 10))
	}
	resume := pauseKafka(t)
	for _, r := range rigs {
		r.Append("stuck", 10)
		awaitInFlight(r, 10)
		r.Must(r.Relay.Signal(syscall.SIGTERM))
		r.Must(r.Relay.AwaitLog(r.Within(time.Minute), "stopping"))
		r.Must(r.Relay.Signal(syscall.SIGTERM))
		r.AwaitExit(time.Minute, 1)
		r.Fault("second signal")
	}
	resume()
	for _, r := range rigs {
		r.Start()
		r.Verify()
	}
}

// A drain that cannot finish ends after shutdown_timeout. What was sent and never arrived is not saved, so nothing is lost.
//
//covers:all 5 exit events
func TestShutdownTimeout(t *testing.T) {
	proxy := shared.kafka.Brokers()[0].Proxy()
	t.Cleanup(func() { proxy.Heal(t.Context()) })
	rigs := rigs(t, func(o *cdctest.RigOptions) {
		o.Listener = testenv.ListenerProxied
		o.Settings = map[string]any{"shutdown_timeout": "500ms"}
	})
	for _, r := range rigs {
		r.Start()
		r.AwaitSaved(r.Append("before", 10))
	}
	proxy.Swallow(testenv.Requests)
	for _, r := range rigs {
		r.Append("stuck", 10)
		awaitInFlight(r, 10)
		sigterm(r)
		r.Fault("shutdown timeout")
	}
	proxy.Heal(t.Context())
	for _, r := range rigs {
		r.Start()
		r.Verify()
	}
}

// pauseKafka pauses the shared broker until resume is called or the test ends. Only one test at a time can do so; for the
// others Kafka is slow meanwhile.
func pauseKafka(t *testing.T) (resume func()) {
	t.Helper()
	broker := shared.kafka.Brokers()[0]
	shared.pausing.Lock()
	resume = sync.OnceFunc(func() {
		defer shared.pausing.Unlock()
		if err := broker.Resume(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(resume)
	testenv.Must(t, broker.Pause())
	return resume
}

// awaitInFlight waits until the relay has at least n events in flight.
func awaitInFlight(r *cdctest.Rig, n float64) {
	r.Await("events in flight", func(ctx context.Context) (bool, error) {
		held, err := r.Relay.Metric(ctx, "cdc_relay_inflight_events ")
		return held >= n, err
	})
}
