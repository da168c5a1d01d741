package writertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/writer"
)

// RequireAppended returns the one event that matches. If none does, the test fails and prints the nearest event with the
// fields in which it differs; if several do, it prints in which fields they differ.
func RequireAppended(tb testing.TB, w *writer.Writer, r Reader, m Match) *writer.Event {
	tb.Helper()
	events := read(tb, w, r)
	var found []*writer.Event
	for _, e := range events {
		if len(m.diff(e)) == 0 {
			found = append(found, e)
		}
	}
	switch len(found) {
	case 0:
		tb.Fatalf("no event matches %v: %s", m, nearest(m, events))
	case 1:
		return found[0]
	default:
		tb.Fatalf("%d events match %v: set more fields; events %s and %s differ in:%s",
			len(found), m, found[0].ID, found[1].ID, lines(exactly(found[1]).diff(found[0])))
	}
	return nil
}

// RequireAppendedInOrder returns an event for each match, in this order; other events may be between them. The order is that
// of the IDs: those that Append sets have the order of insertion.
func RequireAppendedInOrder(tb testing.TB, w *writer.Writer, r Reader, ms ...Match) []*writer.Event {
	tb.Helper()
	events := read(tb, w, r)
	var found []*writer.Event
	for i, m := range ms {
		rest := events
		for len(rest) > 0 && len(m.diff(rest[0])) > 0 {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			tb.Fatalf("after the events of the first %d matches no event matches %v: %s", i, m, nearest(m, events))
		}
		found, events = append(found, rest[0]), rest[1:]
	}
	return found
}

// RequireNotAppended fails the test if an event matches.
func RequireNotAppended(tb testing.TB, w *writer.Writer, r Reader, m Match) {
	tb.Helper()
	for _, e := range read(tb, w, r) {
		if len(m.diff(e)) == 0 {
			tb.Fatalf("event %s matches %v: %v", e.ID, m, exactly(e))
		}
	}
}

func read(tb testing.TB, w *writer.Writer, r Reader) []*writer.Event {
	tb.Helper()
	events, err := r.events(tb.Context(), w)
	if err != nil {
		tb.Fatalf("read events of %s: %v", w.Table(), err)
	}
	return events
}

// nearest describes the event that differs least, of equal ones the last.
func nearest(m Match, events []*writer.Event) string {
	if len(events) == 0 {
		return "there are no events"
	}
	best := events[0]
	for _, e := range events {
		if len(m.diff(e)) <= len(m.diff(best)) {
			best = e
		}
	}
	return fmt.Sprintf("the nearest of %d is event %s, which has:%s", len(events), best.ID, lines(m.diff(best)))
}

// exactly matches what an event has.
func exactly(e *writer.Event) Match {
	m := Match{
		Type: e.Type, AggregateType: e.AggregateType, AggregateID: e.AggregateID, TenantID: e.TenantID, Topic: e.Topic,
		Key: e.PartitionKey, Headers: e.Headers,
	}
	if e.Payload != nil {
		m.Payload = e.Payload
	}
	return m
}

func lines(all []string) string {
	if len(all) == 0 {
		return " nothing"
	}
	return "\n\t" + strings.Join(all, "\n\t")
}
