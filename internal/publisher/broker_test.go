package publisher

import (
	"context"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// Requests that arrive after the connection was lost are returned too, until the loop closes it.
func TestConnReturnsEveryRequest(t *testing.T) {
	addr := "127.0.0.1:1"
	client := kafka.NewClient(kafka.Options{Brokers: []string{addr}, ClientID: "cdc-relay", DialTimeout: time.Second, RequestTimeout: time.Second})
	ctx, closeNow := context.WithCancel(t.Context())
	c := &brokerConn{addr: addr, inFlight: 5, mail: newMailbox(), requests: make(chan *request, 5), closeNow: closeNow}
	ended := make(chan struct{})
	go func() {
		c.run(ctx, client)
		close(ended)
	}()
	events := func() []notice {
		<-c.mail.wake
		return c.mail.take(nil)
	}
	if e, ok := events()[0].(dialed); !ok || e.err == nil {
		t.Fatalf("event %+v, want that nothing listens there", e)
	}
	c.requests <- &request{conn: c}
	if e, ok := events()[0].(requestDone); !ok || e.err == nil {
		t.Fatalf("event %+v, want the request back", e)
	}
	for range 5 {
		c.requests <- &request{conn: c}
	}
	closeNow()
	<-ended
	if n := len(c.mail.take(nil)); n != 5 {
		t.Errorf("%d requests came back, want 5", n)
	}
}
