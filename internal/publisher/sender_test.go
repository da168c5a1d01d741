package publisher

import (
	"context"
	"testing"
	"time"
)

// Requests that reach a sender after its connection was lost come back all the same, until it is dropped.
func TestSenderReturnsEveryRequest(t *testing.T) {
	opts := withDefaults(Options{Brokers: []string{"127.0.0.1:1"}, DialTimeout: time.Second})
	ctx, drop := context.WithCancel(t.Context())
	s := &sender{addr: opts.Brokers[0], mail: newMailbox(), requests: make(chan *request, 5), drop: drop}
	ended := make(chan struct{})
	go func() {
		s.run(ctx, &dialer{&opts})
		close(ended)
	}()
	events := func() []event {
		<-s.mail.wake
		return s.mail.take(nil)
	}
	if e, ok := events()[0].(connected); !ok || e.err == nil {
		t.Fatalf("event %+v, want that nothing listens there", e)
	}
	s.requests <- &request{s: s}
	if e, ok := events()[0].(settled); !ok || e.err == nil {
		t.Fatalf("event %+v, want the request back", e)
	}
	for range 5 {
		s.requests <- &request{s: s}
	}
	drop()
	<-ended
	if n := len(s.mail.take(nil)); n != 5 {
		t.Errorf("%d requests came back, want 5", n)
	}
}
