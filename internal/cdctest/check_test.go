package cdctest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

const (
	topic  = "events"
	source = "/shop/public.outbox"
)

// start is when generated histories begin. Each record is published a second after the one before.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// event returns the event with a name such as "a3", the third of key a.
func event(t *testing.T, name string) *Event {
	t.Helper()
	seq, err := strconv.Atoi(name[1:])
	if err != nil {
		t.Fatal(err)
	}
	key := name[:1]
	return &Event{
		ID: uuid.NewSHA1(uuid.Nil, []byte(name)), Key: key, Seq: seq,
		AggregateType: "Order", Type: "OrderPlaced", ContentType: "text/plain", OccurredAt: start.Add(123450 * time.Microsecond),
		Headers: map[string]string{"shard": "7"}, Payload: Payload(key, seq, 20),
	}
}

// history is what was committed and what the reader saw.
type history struct {
	committed []string
	records   []Record
	faults    []Fault
	excluded  map[uuid.UUID]bool
	offsets   map[int32]int64
}

// read parses a history: "a1" is a record of that event in partition 0, "a1@3" one in partition 3, "a1~" one with
// another value, "a1^" one with another ce_sequence, "a1-" one without a header, "a1+" one with one more, "a1=" one with another key,
// and "!2" a fault with a budget of two.
func read(t *testing.T, committed, published string) *history {
	t.Helper()
	h := &history{committed: strings.Fields(committed), offsets: map[int32]int64{}, excluded: map[uuid.UUID]bool{}}
	for i, word := range strings.Fields(published) {
		at := start.Add(time.Duration(i) * time.Second)
		if budget, ok := strings.CutPrefix(word, "!"); ok {
			n, err := strconv.Atoi(budget)
			if err != nil {
				t.Fatal(err)
			}
			h.faults = append(h.faults, Fault{Name: "a kill", At: at, Budget: n})
			continue
		}
		h.records = append(h.records, h.record(t, word, at))
	}
	return h
}

func (h *history) record(t *testing.T, word string, at time.Time) Record {
	t.Helper()
	var partition int
	name, text, ok := strings.Cut(word, "@")
	if ok {
		var err error
		if partition, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	name, altered := strings.CutSuffix(name, "~")
	name, displaced := strings.CutSuffix(name, "^")
	name, lacks := strings.CutSuffix(name, "-")
	name, has := strings.CutSuffix(name, "+")
	name, moved := strings.CutSuffix(name, "=")
	r := kafkaRecord(event(t, name), name, at, int32(partition), h.offsets[int32(partition)])
	h.offsets[int32(partition)]++
	if altered {
		r.Value = append(slices.Clone(r.Value), 'x')
	}
	if displaced {
		r.Headers[len(r.Headers)-1].Value = []byte("0000000000000000-00000000")
	}
	if lacks {
		r.Headers = slices.Delete(r.Headers, 1, 2)
	}
	if has {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "more"})
	}
	if moved {
		r.Key = []byte("b")
	}
	rec, err := recordOf(r)
	testenv.Must(t, err)
	return rec
}

// kafkaRecord returns the record of an event, built without code of the relay or the checkers.
func kafkaRecord(e *Event, name string, at time.Time, partition int32, offset int64) *kgo.Record {
	seq, _ := strconv.Atoi(name[1:])
	headers := []kgo.RecordHeader{
		{Key: "ce_id", Value: []byte(e.ID.String())},
		{Key: "ce_specversion", Value: []byte("1.0")},
		{Key: "ce_source", Value: []byte(source)},
		{Key: "ce_type", Value: []byte("OrderPlaced")},
		{Key: "ce_subject", Value: []byte(e.Key)},
		{Key: "ce_time", Value: []byte("2026-01-02T03:04:05.12345Z")},
		{Key: "content-type", Value: []byte("text/plain")},
		{Key: "ce_aggregatetype", Value: []byte("Order")},
		{Key: "shard", Value: []byte("7")},
		{Key: "ce_committime", Value: []byte("2026-01-02T03:04:05Z")},
		{Key: "ce_sequence", Value: fmt.Appendf(nil, "%016x-%08x", seq, 0)},
	}
	return &kgo.Record{
		Topic: topic, Partition: partition, Offset: offset, Timestamp: at,
		Key: []byte(e.Key), Value: e.Payload, Headers: headers,
	}
}

func (h *history) check(t *testing.T) *Report {
	t.Helper()
	truth := NewTruth(topic, source)
	for _, name := range h.committed {
		if err := truth.Add(event(t, name)); err != nil {
			t.Fatal(err)
		}
	}
	return Check(truth, h.records, CheckOptions{Faults: h.faults, Excluded: h.excluded})
}

// found lists the kinds of violations found.
func found(r *Report) string {
	var list []string
	for _, kind := range []Kind{Content, Duplicates, Lost, Order, Phantom} {
		if r.Count(kind) > 0 {
			list = append(list, string(kind))
		}
	}
	return strings.Join(list, " ")
}

func TestCheckFindsEachKindOfViolation(t *testing.T) {
	tests := []struct {
		name, committed, published, found string
	}{
		{"nothing", "", "", ""},
		{"in order", "a1 a2 a3", "a1 a2 a3", ""},
		{"keys do not wait for each other", "a1 a2 b1 b2", "b1 a1 a2 b2", ""},
		{"partitions", "a1 b1 a2", "a1@1 b1@2 a2@1", ""},

		{"the last is lost", "a1 a2", "a1", "lost"},
		{"all of a key is lost", "a1 b1", "a1", "lost"},
		{"one in the middle is lost", "a1 a2 a3", "a1 a3", "lost order"},
		{"lost despite a fault", "a1 a2", "a1 !5", "lost"},

		{"swapped", "a1 a2 a3", "a1 a3 a2", "order"},
		{"the first comes last", "a1 a2 a3", "a2 a3 a1", "order"},
		{"swapped after a fault", "a1 a2 a3", "a1 !5 a3 a2", "order"},
		{"a replay that leaves one out", "a1 a2 a3 a4", "a1 a2 a3 !5 a1 a3 a4", "order"},
		{"a replay that jumps to the front", "a1 a2 a3 a4", "a1 a2 a3 !5 a1 a4", "order"},
		{"a key in two partitions", "a1 a2", "a1@0 a2@1", "order"},
		{"a repeat in another partition", "a1 a2", "a1@0 a2@0 !5 a2@1", "order"},
		{"a ce_sequence that goes back", "a1 a2", "a1 a2^", "order"},

		{"a replay", "a1 a2 a3 a4", "a1 a2 a3 !2 a2 a3 a4", ""},
		{"a replay of the last", "a1 a2", "a1 !1 a1 a2", ""},
		{"a replay of a replay", "a1 a2 a3", "a1 a2 !2 a1 !2 a1 a2 a3", ""},
		{"a replay that stops short", "a1 a2 a3", "a1 a2 a3 !3 a1 a2", ""},
		{"repeated without a fault", "a1 a2", "a1 a1 a2", "duplicates"},
		{"repeated before the fault", "a1 a2", "a1 a2 a2 !5", "duplicates"},
		{"over the budget", "a1 a2 a3", "a1 a2 a3 !2 a1 a2 a3", "duplicates"},
		{"each fault has its own budget", "a1 a2 a3", "a1 a2 !1 a2 a3 !1 a2 a3", "duplicates"},
		{"no bound", "a1 a2 a3", "a1 a2 a3 !-1 a1 a2 a3 a1 a2 a3", ""},

		{"never committed", "a1 a2", "a1 b1 a2", "phantom"},
		{"rolled back in the middle", "a1 a2", "a1 a3 a2", "phantom"},

		{"another value", "a1 a2", "a1 a2~", "content"},
		{"another value the second time", "a1 a2", "a1 a2 !5 a2~", "content"},
		{"another header the second time", "a1 a2", "a1 a2 !5 a2^", "content"},
		{"a header less", "a1", "a1-", "content"},
		{"a header more", "a1", "a1+", "content"},
		{"another key", "a1", "a1=", "content"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := read(t, tt.committed, tt.published).check(t)
			if got := found(r); got != tt.found {
				t.Errorf("found %q, want %q: %v", got, tt.found, r.Err())
			}
			if (r.Err() != nil) != (tt.found != "") {
				t.Errorf("Err is %v", r.Err())
			}
		})
	}
}

func TestExcludedEventMustNotBePublished(t *testing.T) {
	h := read(t, "a1 a2 a3", "a1 a3")
	h.excluded[event(t, "a2").ID] = true
	if err := h.check(t).Err(); err != nil {
		t.Error(err)
	}
	h = read(t, "a1 a2 a3", "a1 a2 a3")
	h.excluded[event(t, "a2").ID] = true
	if got := found(h.check(t)); got != "phantom" {
		t.Errorf("found %q", got)
	}
}

// Fault.Since adds the events published shortly before the fault to its budget.
func TestSinceAddsToTheBudget(t *testing.T) {
	h := read(t, "a1 a2 a3 a4", "a1 a2 a3 a4 !0 a3 a4")
	h.faults[0].Since = 2 * time.Second
	if got := found(h.check(t)); got != "duplicates" {
		t.Errorf("found %q: a3 was published 2 s before", got)
	}
	h.faults[0].Since = 3 * time.Second
	if err := h.check(t).Err(); err != nil {
		t.Error(err)
	}
}
