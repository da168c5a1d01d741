package main

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/relay"
)

const (
	// tailFor is how long a topic is listened to after somebody asked.
	tailFor = 15 * time.Second
	// tailEvents are kept of each topic, the last ones.
	tailEvents = 50
	// tailText is how much of a key or an ID is shown, in characters.
	tailText = 200
)

// tail notes keys and IDs of events on their way to Kafka while somebody asks for them. While nobody does it costs one atomic load for a
// batch, which has hundreds of events under load.
type tail struct {
	relay.Sink

	asked  atomic.Bool
	mu     sync.Mutex
	topics map[string]*heard
}

// heard are the last events of a topic.
type heard struct {
	until time.Time
	list  []tailed
}

type tailed struct {
	At  time.Time `json:"at"`
	ID  string    `json:"id"`
	Key string    `json:"key"`
}

func newTail(sink relay.Sink) *tail { return &tail{Sink: sink, topics: map[string]*heard{}} }

// Send implements [relay.Sink].
func (t *tail) Send(ctx context.Context, r *cdc.Routed) error {
	if t.asked.Load() {
		t.note(r, time.Now())
	}
	return t.Sink.Send(ctx, r)
}

func (t *tail) note(r *cdc.Routed, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(now)
	for i := range r.Messages {
		m := &r.Messages[i]
		if h := t.topics[m.Topic]; h != nil {
			h.list = append(h.list, tailed{now.UTC(), display.Cut(m.EventID(), tailText), display.Cut(cdc.KeyText(m.Key), tailText)})
			h.list = h.list[max(0, len(h.list)-tailEvents):]
		}
	}
}

// expire forgets the topics of which nobody has asked for a while.
func (t *tail) expire(now time.Time) {
	for topic, h := range t.topics {
		if now.After(h.until) {
			delete(t.topics, topic)
		}
	}
	t.asked.Store(len(t.topics) > 0)
}

// last listens to a topic from now on, and returns what was heard since somebody asked first, the newest first.
func (t *tail) last(topic string) any {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(time.Now())
	h := t.topics[topic]
	if h == nil {
		h = new(heard)
		t.topics[topic] = h
	}
	h.until = time.Now().Add(tailFor)
	t.asked.Store(true)
	list := append([]tailed{}, h.list...)
	slices.Reverse(list)
	return map[string]any{"events": list}
}
