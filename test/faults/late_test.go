package faults

import (
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// SIGKILL while the network or a slow broker delays requests until the next relay has published: the late requests must be
// rejected, otherwise repeats would not be contiguous.
//
//covers:all 22 1 events
func TestLateRequestsAreRejected(t *testing.T) {
	for name, source := range sources() {
		t.Run(name, func(t *testing.T) {
			proxy := shared.kafka.Brokers()[0].Proxy()
			t.Cleanup(func() { proxy.Heal(t.Context()) })
			r := newRig(t, source.open(t), cdctest.InFile, func(o *cdctest.RigOptions) { o.Listener = testenv.ListenerProxied })
			r.Start()
			r.Load(cdctest.Workload{Writers: 2, Pause: 10 * time.Millisecond})
			r.AwaitProgress(200)
			r.Must(proxy.Delay(testenv.Requests, time.Hour))
			awaitInFlight(r, 500)
			r.Kill()
			r.Reconfigure("kafka.brokers", shared.kafka.Bootstrap()) // around the proxy
			r.Start()
			r.AwaitProgress(500)
			proxy.Heal(t.Context())
			r.AwaitProgress(500)
			r.Verify()
		})
	}
}
