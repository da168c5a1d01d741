package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/relay"
)

// someLetters alternate between two reasons and two keys; each is an hour older than the next.
func someLetters(n int, now time.Time) []deadletter.Listed {
	list := make([]deadletter.Listed, n)
	for i := range list {
		id, key := fmt.Sprintf("event-%d", i), fmt.Sprintf("key-%d", i/2%2)
		e := &deadletter.Entry{
			Order: deadletter.Order{Epoch: 1, Seq: uint64(i)}, Table: "outbox", Key: key, ID: id, AggregateType: "Order", Topic: "orders\u202e",
			Reason: []string{"unroutable", "too_large"}[i%2], Error: "event " + id + " of outbox (aggregate Order " + key + ") is wrong", Time: now.Add(-time.Duration(n-i) * time.Hour),
		}
		list[i] = deadletter.Listed{Letter: id + "@1", Entry: e}
	}
	return list
}

// Facets count what the rest of the filter takes; groups have one cause whatever the IDs and keys; pages follow each other also where a
// letter was resolved meanwhile.
func TestPageOfLetters(t *testing.T) {
	now := time.Now()
	all := someLetters(200, now)
	p := pageOf(all, "", map[string]string{"reason": "too_large"})
	if p.Total != 100 || p.All != 200 || len(p.Letters) != pageLetters || p.Facets["reason"]["unroutable"] != 100 || p.Facets["type"][""] != 100 || p.Facets["age"]["24h"] != 12 || p.Facets["age"]["older"] != 16 {
		t.Errorf("%d of %d, facets %v", p.Total, p.All, p.Facets)
	}
	if g := p.Groups; len(g) != 1 || g[0].Count != 100 || g[0].Keys != 2 || g[0].Cause != "too_large: event ID of outbox (aggregate) is wrong" || !g[0].First.Before(g[0].Last) {
		t.Errorf("%+v", g)
	}
	if text := p.Letters[0].Topic; text != `orders\u202e` || all[0].Topic != "orders\u202e" {
		t.Errorf("%q", text)
	}
	if p.Last != "1-199-0" || upTo(all[:3], "1-1-0") != 2 {
		t.Errorf("the last letter is %s", p.Last)
	}
	rest := pageOf(append(all[:98:98], all[100:]...), p.Next, map[string]string{"reason": "too_large", "topic": `orders\u202e`})
	if rest.Total != 99 || len(rest.Letters) != 50 || rest.Letters[0].Letter != "event-101@1" || rest.Next != "" {
		t.Errorf("%d letters of %d, the first is %s, next %q", len(rest.Letters), rest.Total, rest.Letters[0].Letter, rest.Next)
	}
}

type nowhere struct{ relay.Sink }

func (nowhere) Send(context.Context, *cdc.Routed) error { return nil }

// Nothing is noted before somebody asks; then IDs and keys of the topic alone, the newest first, and as text that a page can show.
func TestTail(t *testing.T) {
	s := newTail(nowhere{})
	send := func(topic, id string) {
		r := &cdc.Routed{Messages: []cdc.Message{{Topic: topic, ID: []byte(id), Key: []byte("k\x1b" + id), Value: []byte("secret")}}}
		if err := s.Send(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	said := func() string { return fmt.Sprint(s.last("orders")) }
	send("orders", "1")
	if got := said(); strings.Contains(got, " 1 ") {
		t.Error(got)
	}
	send("orders", "2")
	send("payments", "3")
	send("orders", "4")
	if got := said(); !strings.Contains(got, "4 k") || strings.Contains(got, "\x1b") || strings.Contains(got, "secret") || strings.Contains(got, "3 k") || strings.Index(got, " 4 ") > strings.Index(got, " 2 ") {
		t.Error(got)
	}
	s.topics["orders"].until = time.Time{} // nobody asked for a while
	send("orders", "5")
	if s.asked.Load() || len(s.topics) != 0 {
		t.Error("it still listens")
	}
}
