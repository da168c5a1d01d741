package deadletter

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// resolverSink is a sink that resolves what it is asked to.
type resolverSink struct {
	Sink

	index     *Index
	accepted  map[string]*Ask
	resolved  []string
	forgotten []string
	answers   []*Ask
}

func (s *resolverSink) LoadLetters(_ context.Context, _ cdc.Source, passed func(string) bool) (*Loaded, error) {
	entries := map[string]*Entry{
		"bad@1":  {Place: "1", Table: "a.b", Key: "k", Reason: "unroutable"},
		"held@2": {Place: "2", Table: "a.b", Key: "k", Reason: Held, Order: Order{Seq: 1}},
	}
	s.index = NewIndex(Options{HoldKey: true, MaxLetters: 9}, panics, entries, passed)
	return &Loaded{Index: s.index, Accepted: s.accepted}, nil
}

func (s *resolverSink) Resolve(_ context.Context, letters []Resolution) ([]Outcome, error) {
	for i := range letters {
		l := &letters[i]
		if !s.index.Begin(l.ID, l.Message == nil) {
			return []Outcome{{Skipped: true}}, nil
		}
		s.index.Resolved(l.ID)
		s.resolved = append(s.resolved, l.ID)
	}
	return make([]Outcome, len(letters)), nil
}

var errHeld = errors.New("held letters are to be published")

func (s *resolverSink) CloseKeys(context.Context, []string) error { return errHeld }

func (s *resolverSink) Forget(_ context.Context, letters map[string]int32) error {
	s.forgotten = slices.AppendSeq(s.forgotten, maps.Keys(letters))
	return nil
}

func (s *resolverSink) WriteIndex(_ context.Context, values map[string][]byte) error {
	s.answers = slices.AppendSeq(s.answers, maps.Values(written(values).Asks))
	return nil
}

// An accepted drop is a fact: all of its letters are dropped before anything is published, whatever the saved position, the newest of a key
// first, and also by a leader that takes over. They are removed only behind the position that a start would have, be it the one that was saved
// last or that of a slot which has yet to hear of it: until then their rows may come again.
func TestDropIsAFact(t *testing.T) {
	for _, slotOnly := range []bool{false, true} {
		for _, resumed := range []bool{false, true} {
			saved, slot := cdc.Progress{Position: "0"}, cdc.Progress{Position: "0"}
			o := ResolverOptions{Passed: func(p cdc.Progress, place string) bool { return string(p.Position) >= place }}
			if slotOnly {
				saved.Position = "2"
				o.Stored = func(context.Context) (cdc.Progress, error) { return slot, nil }
			}
			sink := &resolverSink{}
			drop := &Ask{Do: Drop, Letters: []string{"bad@1", "held@2"}}
			if resumed {
				sink.accepted = map[string]*Ask{"a": {Do: Drop, State: Accepted, Letters: drop.Letters, Done: 7}}
			}
			r := NewResolver(o, sink, nil, slog.New(slog.DiscardHandler))
			if err := r.Load(t.Context(), cdc.Source{}, cdc.Progress{}); err != nil {
				t.Fatal(err)
			}
			if !resumed {
				r.asks.take(ask{id: "a", asked: drop})
			}
			_, err := r.step(t.Context(), saved)
			if err != nil || !slices.Equal(sink.resolved, []string{"held@2", "bad@1"}) || len(sink.forgotten) > 0 {
				t.Errorf("dropped %v, removed %v, %v", sink.resolved, sink.forgotten, err)
			}
			if first := sink.answers[0]; first.State != Accepted || !slices.Equal(first.Letters, drop.Letters) {
				t.Errorf("the next leader would not go on with it: %+v", first)
			}
			if last := sink.answers[len(sink.answers)-1]; last.State != Ended || last.Done != map[bool]int{false: 2, true: 9}[resumed] {
				t.Errorf("answer %+v", last)
			}
			saved.Position, slot.Position = "2", "1"
			if _, err := r.step(t.Context(), saved); err != nil || len(sink.forgotten) != map[bool]int{false: 2, true: 1}[slotOnly] {
				t.Errorf("removed %v, %v", sink.forgotten, err)
			}
		}
	}
}

// Only the letter that was asked for is dropped, and what waits behind it is published. While another chosen letter of its key is being
// written, neither is.
func TestOnlyTheChosenLettersAreDropped(t *testing.T) {
	sink := &resolverSink{}
	r := NewResolver(ResolverOptions{Passed: func(cdc.Progress, string) bool { return true }}, sink, nil, slog.New(slog.DiscardHandler))
	if err := r.Load(t.Context(), cdc.Source{}, cdc.Progress{}); err != nil {
		t.Fatal(err)
	}
	add := func(id, key string, seq uint64) {
		sink.index.Add(id, &Entry{Place: "3", Table: "a.b", Key: key, Reason: Held, Order: Order{Seq: seq}})
	}
	add("late@3", "k", 2)
	add("free@4", "l", 3) // nothing is wrong with it, and no letter is before it
	add("late@5", "l", 4)
	sink.index.Stored("free@4")
	r.asks.take(ask{id: "a", asked: &Ask{Do: Drop, Letters: []string{"bad@1", "late@3", "free@4", "late@5"}}})
	if _, err := r.step(t.Context(), cdc.Progress{}); err != nil || sink.resolved != nil {
		t.Errorf("dropped %v, %v", sink.resolved, err)
	}
	sink.index.Stored("late@3")
	if _, err := r.step(t.Context(), cdc.Progress{}); !errors.Is(err, errHeld) || !slices.Equal(sink.resolved, []string{"late@3", "bad@1"}) {
		t.Errorf("dropped %v, %v", sink.resolved, err)
	}
}
