package cdctest

import (
	"fmt"
	"slices"

	"github.com/google/uuid"
)

// Truth is what was committed: every row of the outbox table, read from the database itself.
type Truth struct {
	topic, source string
	events        map[uuid.UUID]*fact
	streams       map[stream][]*fact
}

// stream is the events of one key in one topic, for which order is promised.
type stream struct{ topic, key string }

// fact is a committed event.
type fact struct {
	id      uuid.UUID
	stream  stream
	seq     int
	content Digest
	// rank is the index among the stream's events that must be published; -1 if excluded. See ranked.
	rank int
}

// NewTruth returns a Truth without events. topic is the default topic, source the records' ce_source.
func NewTruth(topic, source string) *Truth {
	return &Truth{topic: topic, source: source, events: map[uuid.UUID]*fact{}, streams: map[stream][]*fact{}}
}

// Add adds a committed event and does not retain e.
func (t *Truth) Add(e *Event) error {
	if t.events[e.ID] != nil {
		return fmt.Errorf("event %s is in the table twice", e.ID)
	}
	topic := e.Topic
	if topic == "" {
		topic = t.topic
	}
	f := &fact{id: e.ID, stream: stream{topic, e.Key}, seq: e.Seq, content: e.content(t.source)}
	t.events[e.ID] = f
	t.streams[f.stream] = append(t.streams[f.stream], f)
	return nil
}

// Len returns the number of committed events.
func (t *Truth) Len() int { return len(t.events) }

// Has reports whether the event was committed.
func (t *Truth) Has(id uuid.UUID) bool { return t.events[id] != nil }

// published returns the events that must be published: all but the excluded ones.
func (t *Truth) published(excluded map[uuid.UUID]bool) map[uuid.UUID]bool {
	ids := make(map[uuid.UUID]bool, len(t.events))
	for id := range t.events {
		if !excluded[id] {
			ids[id] = true
		}
	}
	return ids
}

// ranked numbers the events of each stream in commit order, without the excluded ones.
func (t *Truth) ranked(excluded map[uuid.UUID]bool) error {
	for s, facts := range t.streams {
		slices.SortFunc(facts, func(a, b *fact) int { return a.seq - b.seq })
		rank := 0
		for i, f := range facts {
			if i > 0 && facts[i-1].seq == f.seq {
				return fmt.Errorf("key %s has two events with seq %d: the workload is wrong", s.key, f.seq)
			}
			if f.rank = -1; !excluded[f.id] {
				f.rank = rank
				rank++
			}
		}
	}
	return nil
}
