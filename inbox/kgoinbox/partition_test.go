package kgoinbox

import (
	"context"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/inbox"
)

// franz-go has no way to make it go back at will.
func TestOffsetsThatFallEndRun(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	p := &partition[int]{run: &run[int]{cancel: cancel}, wake: make(chan struct{}, 1)}
	for _, offset := range []int64{5, 6, 9} {
		p.hold(&inbox.Message{Topic: "orders", Offset: offset})
	}
	if ctx.Err() != nil || len(p.held) != 3 {
		t.Fatalf("%d held: %v", len(p.held), context.Cause(ctx))
	}
	p.hold(&inbox.Message{Topic: "orders", Offset: 8})
	if err := context.Cause(ctx); err == nil || !strings.Contains(err.Error(), "record orders[0]@8 came after offset 9") || len(p.held) != 3 {
		t.Errorf("%d held: %v", len(p.held), err)
	}
}

func TestConsumerWithoutHandlers(t *testing.T) {
	if _, err := New[int](nil, nil, Config{}); err == nil || !strings.Contains(err.Error(), "the registry is nil") {
		t.Error(err)
	}
}
