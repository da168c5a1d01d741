package dlq

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
)

// resolving is a sink that resolves what it is asked to.
type resolving struct {
	Sink

	index    *deadletter.Index
	resolved []string
	answered *deadletter.Ask
}

func (s *resolving) LoadLetters(_ context.Context, _ cdc.Source, passed func(string) bool) (*deadletter.Index, int64, error) {
	entries := map[string]*deadletter.Entry{
		"bad":  {Place: "1", Table: "a.b", Key: "k", Reason: "unroutable"},
		"held": {Place: "2", Table: "a.b", Key: "k", Reason: deadletter.Held, Order: deadletter.Order{Seq: 1}},
	}
	s.index = deadletter.NewIndex(deadletter.Options{HoldKey: true, MaxKeys: 9, MaxLetters: 9}, entries, passed)
	return s.index, 0, nil
}

func (s *resolving) Resolve(_ context.Context, letters []deadletter.Resolution) ([]deadletter.Outcome, error) {
	for _, l := range letters {
		if !s.index.Begin(l.ID, l.Message == nil) {
			return []deadletter.Outcome{{Skipped: true}}, nil
		}
		s.index.Resolved(l.ID)
		s.resolved = append(s.resolved, l.ID)
	}
	return make([]deadletter.Outcome, len(letters)), nil
}

var errFollowers = errors.New("followers are to be published")

func (s *resolving) CloseKeys(context.Context, []string) error { return errFollowers }

func (s *resolving) Forget(context.Context, map[string]int32) error { return nil }

func (s *resolving) Answer(_ context.Context, _ string, answer *deadletter.Ask) error {
	s.answered = answer
	return nil
}

// A letter is dropped only behind the position that a start would have, be it the one that was saved last or that of a slot which has yet
// to hear of it: otherwise a crash would bring the event back. Only the letter that was asked for is dropped.
func TestDropWaitsForThePosition(t *testing.T) {
	for _, slotOnly := range []bool{false, true} {
		saved, slot := cdc.Progress{Position: "0"}, cdc.Progress{Position: "0"}
		o := Options{Passed: func(p cdc.Progress, place string) bool { return string(p.Position) >= place }}
		if slotOnly {
			saved.Position = "2"
			o.Stored = func(context.Context) (cdc.Progress, error) { return slot, nil }
		}
		sink := &resolving{}
		r := New(o, sink, nil, slog.New(slog.DiscardHandler))
		if err := r.Load(t.Context(), cdc.Source{}, cdc.Progress{Position: "2"}); err != nil {
			t.Fatal(err)
		}
		r.asks.take(ask{id: "a", asked: &deadletter.Ask{Do: deadletter.Drop, Letters: []string{"bad"}}})
		_, _ = r.step(t.Context(), saved) // the answer to the ask
		if _, err := r.step(t.Context(), saved); err != nil || sink.resolved != nil || sink.answered.Waits == "" {
			t.Errorf("slot alone %v: dropped %v, answer %+v, %v", slotOnly, sink.resolved, sink.answered, err)
		}
		saved.Position, slot.Position = "2", "1"
		if _, err := r.step(t.Context(), saved); !errors.Is(err, errFollowers) || !slices.Equal(sink.resolved, []string{"bad"}) {
			t.Errorf("slot alone %v: dropped %v, %v", slotOnly, sink.resolved, err)
		}
	}
}
