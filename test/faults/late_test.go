package faults

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// SIGKILL while the network or a slow broker delays requests until the next relay has published: the late requests must be
// rejected, otherwise repeats would not be contiguous.
//
//covers:all 22 1 events
func TestLateRequestsAreRejected(t *testing.T) {
	proxy := shared.kafka.Brokers()[0].Proxy()
	t.Cleanup(func() { proxy.Heal(t.Context()) })
	rigs := rigs(t, func(o *cdctest.RigOptions) { o.Listener = testenv.ListenerProxied })
	for _, r := range rigs {
		r.Start()
		r.Load(cdctest.Workload{Writers: 2, Pause: 10 * time.Millisecond})
	}
	awaitProgress(rigs, 200)
	proxy.Delay(testenv.Requests, time.Hour)
	for _, r := range rigs {
		awaitInFlight(r, 500)
		r.Kill()
		r.Reconfigure("kafka.brokers", shared.kafka.Bootstrap()) // around the proxy
		r.Start()
	}
	awaitProgress(rigs, 500)
	proxy.Heal(t.Context())
	awaitProgress(rigs, 500)
	verify(rigs)
}

// A request to publish is held back on its way until the transaction in which the relay has sent it again is committed. It comes
// between two transactions then, and the broker refuses the batch behind it. The relay starts again from the position in
// Kafka, once, and every event arrives once.
//
//covers:all 22 events exactly-once
func TestRequestOfAnEarlierTransaction(t *testing.T) {
	proxy := shared.kafka.Brokers()[0].Proxy()
	rigs := rigs(t, func(o *cdctest.RigOptions) {
		exactlyOnce(o)
		proxied(o)
		o.Settings = map[string]any{"kafka.request_timeout": "10s"} // a busy machine loses no other request
	})
	held, late := make([]*testenv.Held, len(rigs)), make([][]*cdctest.Event, len(rigs))
	for i, r := range rigs {
		r.Start()
		r.AwaitSaved(r.Append("k", 1))
		held[i] = proxy.HoldBack(t, publishesTo(r.Topic))
		late[i] = r.Append("k", 1)
		caught(r, held[i])
	}
	for i, r := range rigs {
		r.AwaitEvents(late[i]) // read as committed: the partition has the end of the transaction
		r.Must(held[i].Release(r.Within(time.Minute)))
		r.AwaitSaved(r.Append("k", 1))
		once(t, r)
		if n := strings.Count(r.Relay.Log(), "starting again from the stored position"); n != 1 {
			t.Errorf("%s: it has started again %d times, want once", r.Topic, n)
		}
	}
}

// publishesTo recognizes requests to publish to a topic: of version 8, as the relay's.
func publishesTo(topic string) func(request []byte) bool {
	name := append(binary.BigEndian.AppendUint16(nil, uint16(len(topic))), topic...)
	produces := isRequest(kmsg.Produce)
	return func(request []byte) bool { return produces(request) && bytes.Contains(request, name) }
}

// isRequest recognizes one kind of requests.
func isRequest(key kmsg.Key) func(request []byte) bool {
	const keyField = 4
	return func(request []byte) bool {
		return len(request) > keyField+2 && binary.BigEndian.Uint16(request[keyField:]) == uint16(key)
	}
}

// caught waits until a request is held back.
func caught(r *cdctest.Rig, held *testenv.Held) {
	select {
	case <-held.Caught():
	case <-r.Within(time.Minute).Done():
		r.Must(errors.New("no such request was sent"))
	}
}
