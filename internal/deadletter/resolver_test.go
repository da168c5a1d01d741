package deadletter

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// resolverSink is a sink that resolves what it is asked to.
type resolverSink struct {
	Sink

	index    *Index
	resolved []string
	answered *Ask
}

func (s *resolverSink) LoadLetters(_ context.Context, _ cdc.Source, passed func(string) bool) (*Index, int64, error) {
	entries := map[string]*Entry{
		"bad":  {Place: "1", Table: "a.b", Key: "k", Reason: "unroutable"},
		"held": {Place: "2", Table: "a.b", Key: "k", Reason: Held, Order: Order{Seq: 1}},
	}
	s.index = NewIndex(Options{HoldKey: true, MaxKeys: 9, MaxLetters: 9}, panics, entries, passed)
	return s.index, 0, nil
}

func (s *resolverSink) Resolve(_ context.Context, letters []Resolution) ([]Outcome, error) {
	for _, l := range letters {
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

func (s *resolverSink) Forget(context.Context, map[string]int32) error { return nil }

func (s *resolverSink) Answer(_ context.Context, _ string, answer *Ask) error {
	s.answered = answer
	return nil
}

// A letter is dropped only behind the position that a start would have, be it the one that was saved last or that of a slot which has yet
// to hear of it: otherwise a crash would bring the event back. Only the letter that was asked for is dropped.
func TestDropWaitsForThePosition(t *testing.T) {
	for _, slotOnly := range []bool{false, true} {
		saved, slot := cdc.Progress{Position: "0"}, cdc.Progress{Position: "0"}
		o := ResolverOptions{Passed: func(p cdc.Progress, place string) bool { return string(p.Position) >= place }}
		if slotOnly {
			saved.Position = "2"
			o.Stored = func(context.Context) (cdc.Progress, error) { return slot, nil }
		}
		sink := &resolverSink{}
		r := NewResolver(o, sink, nil, slog.New(slog.DiscardHandler))
		if err := r.Load(t.Context(), cdc.Source{}, cdc.Progress{Position: "2"}); err != nil {
			t.Fatal(err)
		}
		r.asks.take(ask{id: "a", asked: &Ask{Do: Drop, Letters: []string{"bad"}}})
		_, _ = r.step(t.Context(), saved) // the answer to the ask
		if _, err := r.step(t.Context(), saved); err != nil || sink.resolved != nil || sink.answered.Waits == "" {
			t.Errorf("slot alone %v: dropped %v, answer %+v, %v", slotOnly, sink.resolved, sink.answered, err)
		}
		saved.Position, slot.Position = "2", "1"
		if _, err := r.step(t.Context(), saved); !errors.Is(err, errHeld) || !slices.Equal(sink.resolved, []string{"bad"}) {
			t.Errorf("slot alone %v: dropped %v, %v", slotOnly, sink.resolved, err)
		}
	}
}
