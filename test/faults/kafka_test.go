package faults

import (
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// outage is how long all brokers are away.
const outage = 30 * time.Second

// Each of three brokers is killed in turn, then all at once. The relay waits and continues; nothing is lost or out of order
// and, because the producer is idempotent, nothing is repeated.
//
//covers:all 21 events both
func TestBrokersKilled(t *testing.T) {
	t.Parallel()
	kafka := testenv.Kafka(t, testenv.KafkaOptions{Brokers: 3})
	rigs := everywhere(t, func(o *cdctest.RigOptions) { o.Kafka = kafka })
	for _, r := range rigs {
		r.Start()
		r.Load(cdctest.Workload{Writers: 2, Pause: 100 * time.Millisecond})
	}
	for _, broker := range kafka.Brokers() {
		awaitProgress(rigs, 200)
		broker.Kill()
		awaitProgress(rigs, 300)
		rigs[0].Must(broker.Launch(t.Context()))
		rigs[0].Must(kafka.AwaitHealthy(rigs[0].Within(2 * time.Minute)))
	}
	awaitProgress(rigs, 200)
	for _, broker := range kafka.Brokers() {
		broker.Kill()
	}
	rigs[0].Hold(outage)
	rigs[0].Must(kafka.Start(rigs[0].Within(2 * time.Minute)))
	awaitProgress(rigs, 300)
	verify(rigs)
	for _, r := range rigs {
		startedOnce(r)
	}
}

// proxied lets the relay connect to Kafka through the broker's proxy, with a short request timeout.
func proxied(o *cdctest.RigOptions) {
	o.Listener = testenv.ListenerProxied
	o.Settings = map[string]any{"kafka.request_timeout": "1s"}
}

// Kafka's responses are lost, so that it is not known what arrived, or whether a transaction was committed. The same process goes on: it sends
// the same batch again, which the broker recognises, or finds out about the transaction, and nothing is repeated.
//
//covers:all 22 events both
//covers:all 23 events exactly-once
func TestResponsesLost(t *testing.T) {
	proxy := shared.kafka.Brokers()[0].Proxy()
	t.Cleanup(func() { proxy.Heal(t.Context()) })
	rigs := everywhere(t, proxied)
	loaded(rigs)
	for range 4 {
		awaitProgress(rigs, 300)
		proxy.Swallow(testenv.Responses)
		rigs[0].Hold(1500 * time.Millisecond) // longer than the request timeout
		proxy.Cut()                           // a connection whose responses were swallowed cannot be used again
		proxy.Heal(t.Context())
		rigs[0].Must(proxy.Restore())
	}
	awaitProgress(rigs, 300)
	stopLoads(rigs)
	for _, r := range rigs {
		goesOnOnce(t, r)
	}
}
