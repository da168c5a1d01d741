package publisher

import "sync"

// event is something that happened outside the loop.
type event interface{ apply(l *loop) }

// mailbox hands events to the loop. Posting never blocks: its callers are sarama's goroutines, which
// must go on reading. What is in it is bounded by the requests that are out.
type mailbox struct {
	wake chan struct{}

	mu     sync.Mutex
	events []event
}

func newMailbox() *mailbox { return &mailbox{wake: make(chan struct{}, 1)} }

func (m *mailbox) post(e event) {
	m.mu.Lock()
	m.events = append(m.events, e)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// take returns what has been posted, and keeps the memory of spare for later posts.
func (m *mailbox) take(spare []event) []event {
	clear(spare)
	m.mu.Lock()
	defer m.mu.Unlock()
	events := m.events
	m.events = spare[:0]
	return events
}
