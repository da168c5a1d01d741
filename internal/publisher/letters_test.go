package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

const (
	letterTopic = "letters"
	letterIndex = "letters.index"
)

// lettered is a publisher with dead letters and what it has answered.
type lettered struct {
	*sink

	cluster  *kfake.Cluster
	opts     publisher.Options
	index    *deadletter.Index
	accepted map[string]*deadletter.Ask
	ofTable  bool   // rows are read from the table by SQL
	stop     func() // ends collect
}

// eachDelivery runs a test for both kinds of delivery.
func eachDelivery(t *testing.T, test func(t *testing.T, l *lettered)) {
	t.Helper()
	for _, exactlyOnce := range []bool{false, true} {
		t.Run(map[bool]string{false: "at-least-once", true: "exactly-once"}[exactlyOnce], func(t *testing.T) {
			c := newCluster(t, 1, 3)
			compacted := map[string]string{"cleanup.policy": "compact"}
			createTopic(t, c.ListenAddrs(), letterTopic, 4, map[string]string{"cleanup.policy": "compact", "max.message.bytes": strconv.Itoa(16 << 20)})
			createTopic(t, c.ListenAddrs(), letterIndex, 1, compacted)
			createTopic(t, c.ListenAddrs(), positions, 1, compacted)
			opts := options(c)
			opts.Letters = &publisher.LetterOptions{
				Topic: letterTopic, Index: letterIndex, Partitions: 4, Tables: []string{"public.outbox"}, Due: deadletter.NewDue(),
				Options: deadletter.Options{HoldKey: true, MaxLetters: 1000},
			}
			opts.UnknownTopic, opts.Malformed, opts.TooLarge, opts.Rejected = cdc.PolicyDeadLetter, cdc.PolicyDeadLetter, cdc.PolicyDeadLetter, cdc.PolicyDeadLetter
			if exactlyOnce {
				opts.PositionTopic = positions
			}
			l := &lettered{sink: newSink(exactlyOnce), cluster: c, opts: opts}
			l.Publisher = unopened(t, opts)
			l.start(t, nil)
			test(t, l)
		})
	}
}

func source() cdc.Source { return cdc.Source{SystemID: "1", Database: "shop", Slot: "s"} }

// start opens the publisher as a relay does. Places in passed are behind the position.
func (l *lettered) start(t *testing.T, passed func(string) bool) {
	t.Helper()
	if passed == nil {
		passed = func(string) bool { return true }
	}
	err := l.Open(t.Context(), "cdc-relay.test")
	if err == nil && l.exactlyOnce {
		_, err = l.Commit(t.Context(), "barrier", nil)
	}
	if err == nil {
		var loaded *deadletter.Loaded
		if loaded, err = l.LoadLetters(t.Context(), source(), passed); err == nil {
			l.index, l.accepted = loaded.Index, loaded.Accepted
		}
	}
	if err == nil && l.exactlyOnce {
		_, err = l.Commit(t.Context(), "position", nil)
	}
	testenv.Must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var collecting sync.WaitGroup
	answers := l.Durable()
	collecting.Go(func() { l.collect(ctx, answers) })
	l.stop = func() {
		stop()
		collecting.Wait()
	}
}

// restart is that of a relay that was killed.
func (l *lettered) restart(t *testing.T, passed func(string) bool) {
	t.Helper()
	l.Kill()
	l.stop()
	l.Reset()
	l.acked, l.err = 0, nil
	l.start(t, passed)
}

// fact is an event: its key, its topic ("" cannot be routed), and its value.
type fact struct{ key, topic, value string }

// null is the value of an event without a payload, and beyond that of one for partition 9.
const null, beyond = "NULL", "beyond"

// send sends events as one batch of one transaction, and returns its number.
func (l *lettered) send(t *testing.T, facts ...fact) uint64 {
	t.Helper()
	table := &cdc.Table{Schema: "public", Name: "outbox", Columns: []cdc.Column{{Name: "event_id"}, {Name: "payload"}}}
	b := &cdc.Batch{Seq: l.next, Table: table, Txs: []cdc.Tx{{Commit: 0x100 * l.next, Time: time.Now().UnixMicro()}}}
	if l.ofTable {
		b.Txs[0].Commit = 0
	}
	r := &cdc.Routed{Batch: b, Payload: 1}
	l.next++
	for i, f := range facts {
		id := f.key + "/" + f.value
		if f.value == long {
			f.value = incompressible(longPayload)
		}
		for _, v := range []string{id, f.value} {
			b.Spans = append(b.Spans, cdc.Span{Off: int32(len(b.Arena)), Len: int32(len(v))})
			b.Arena = append(b.Arena, v...)
		}
		m := msg(f.key, f.value)
		m.ID, m.Topic, m.Row = []byte(id), f.topic, int32(i)
		if f.value == null {
			m.Value = nil
		}
		if f.value == beyond {
			m.Partition = 10
		}
		if f.topic == "" {
			r.Refused = append(r.Refused, cdc.Refused{Row: int32(i), Reason: "unroutable", Err: errors.New("no route"), EventID: m.ID, Key: m.Key})
		} else {
			r.Messages = append(r.Messages, m)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	testenv.Must(t, l.Send(ctx, r))
	return b.Seq
}

func (l *lettered) answered(t *testing.T, seq uint64) {
	t.Helper()
	var err error
	l.await(t, fmt.Sprintf("the answer to %d", seq), func() bool {
		err = l.err
		return err != nil || l.acked >= seq
	})
	testenv.Must(t, err)
}

// records reads what is committed in a topic, the values by key in the order of their offsets.
func (l *lettered) records(t *testing.T, topic string, partitions int32) map[string][]*kafka.Record {
	t.Helper()
	all := map[string][]*kafka.Record{}
	client := kafka.NewClient(l.opts.Kafka)
	defer client.Close()
	for id := range partitions {
		err := client.Read(t.Context(), topic, id, kafka.Oldest, kafka.Committed, func(r *kafka.Record) error {
			all[string(r.Key)] = append(all[string(r.Key)], r)
			return nil
		})
		testenv.Must(t, err)
	}
	return all
}

// published is what a key has in topic t, "a b c".
func (l *lettered) published(t *testing.T, key string) string {
	t.Helper()
	var values []string
	for _, r := range l.records(t, "t", 3)[key] {
		values = append(values, string(r.Value))
	}
	return strings.Join(values, " ")
}

// letters are those that are left in the topic, by their IDs.
func (l *lettered) letters(t *testing.T) map[string]*deadletter.Letter {
	t.Helper()
	all := map[string]*deadletter.Letter{}
	for id, records := range l.records(t, letterTopic, 4) {
		last := records[len(records)-1]
		if id == deadletter.Barrier || last.Value == nil {
			continue
		}
		d, err := deadletter.Decode(last.Value, last.Headers)
		testenv.Must(t, err)
		d.Partition = last.Partition
		all[id] = d
	}
	return all
}

// resolve publishes the letters to topic, in the order of their IDs, or drops them, and removes those that are done.
func (l *lettered) resolve(t *testing.T, topic string, ids ...string) []deadletter.Outcome {
	t.Helper()
	letters := l.letters(t)
	index := l.entries(t)
	var asked []deadletter.Resolution
	done := map[string]int32{}
	for _, id := range ids {
		d, e := letters[id], index[id]
		r := deadletter.Resolution{Work: deadletter.Work{ID: id, Partition: e.Partition, Order: e.Order, Hold: e.HoldName(), Attempts: 1}}
		r.Failed = func(reason string, err error) []byte {
			again := *e
			again.Reason, again.Error, again.Attempts = reason, err.Error(), 1
			return again.Encode()
		}
		if topic != "" {
			r.Message = &cdc.Message{ID: []byte(d.ID), Topic: topic, Key: d.RecordKey, Value: d.Payload, Headers: d.Headers}
			if string(d.Payload) == beyond {
				r.Message.Partition = 10
			}
		}
		asked = append(asked, r)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	outcomes, err := l.Resolve(ctx, asked)
	testenv.Must(t, err)
	for i, o := range outcomes {
		if !o.Skipped && o.Err == nil {
			done[ids[i]] = asked[i].Partition
		}
	}
	testenv.Must(t, l.Forget(t.Context(), done))
	return outcomes
}

// entries are those of the index.
func (l *lettered) entries(t *testing.T) map[string]*deadletter.Entry {
	t.Helper()
	records := deadletter.NewRecords()
	for key, all := range l.records(t, letterIndex, 1) {
		testenv.Must(t, records.Add(key, all[len(all)-1].Value))
	}
	return records.Entries
}

// An event that cannot be routed becomes a letter with all that it has, and its key's later events follow it, also after a
// restart. Other keys pass. What is published again comes before what follows.
func TestKeyIsHeld(t *testing.T) {
	eachDelivery(t, func(t *testing.T, l *lettered) {
		seq := l.send(t, fact{"a", "t", "1"}, fact{"a", "", "2"}, fact{"b", "t", "1"}, fact{"a", "t", "3"})
		l.answered(t, seq)
		if a, b := l.published(t, "a"), l.published(t, "b"); a != "1" || b != "1" {
			t.Errorf("published: %q, %q", a, b)
		}
		l.restart(t, nil)
		l.answered(t, l.send(t, fact{"a", "t", "4"}, fact{"b", "t", "2"}))
		letters := l.letters(t)
		ids := slices.Sorted(maps.Keys(letters))
		want := []string{"a/2@0000000000000100/1", "a/3@0000000000000100/3", "a/4@0000000000000200/0"}
		if !slices.Equal(ids, want) {
			t.Fatalf("letters: %q", ids)
		}
		d := letters[ids[0]]
		if d.Reason != "unroutable" || d.Error != "no route" || string(d.Payload) != "2" || string(d.RecordKey) != "a" || d.Table != "public.outbox" {
			t.Errorf("letter: %+v", d)
		}
		if d := letters[ids[1]]; d.Reason != deadletter.Held || d.Topic != "t" || len(d.Headers) != 2 || d.Batch(map[string]*cdc.Table{}).Rows() != 1 {
			t.Errorf("held letter: %+v", d)
		}
		if out := l.resolve(t, "t", ids[1]); !out[0].Skipped {
			t.Errorf("it was published before the first: %+v", out)
		}
		for i, out := range l.resolve(t, "t", ids...) {
			if out != (deadletter.Outcome{}) {
				t.Errorf("letter %d: %+v", i, out)
			}
		}
		l.answered(t, l.send(t, fact{"a", "t", "5"}))
		if a, b := l.published(t, "a"), l.published(t, "b"); a != "1 2 3 4 5" || b != "1 2" {
			t.Errorf("published: %q, %q", a, b)
		}
		if len(l.letters(t)) != 0 || len(l.entries(t)) != 0 || l.index.Summary().Events != 0 {
			t.Errorf("left: %v, %v, %d", l.letters(t), l.entries(t), l.index.Summary().Events)
		}
	})
}

// What a broker rejects, what is too large, and what is for a missing topic become letters; events of other keys in the
// same batch pass, and a retry that fails again concerns nothing else.
func TestRejectedEventsBecomeLetters(t *testing.T) {
	eachDelivery(t, func(t *testing.T, l *lettered) {
		huge := strings.Repeat("x", 2<<20)
		seq := l.send(t, fact{"a", "t", "1"}, fact{"a", "t", huge}, fact{"b", "t", "1"}, fact{"a", "t", "2"}, fact{"c", "missing", "1"}, fact{"c", "t", "2"})
		l.answered(t, seq)
		if a, b := l.published(t, "a"), l.published(t, "b"); a != "1" || b != "1" {
			t.Errorf("published: %q, %q", a, b)
		}
		entries := l.entries(t)
		reasons := map[string]int{}
		for _, e := range entries {
			reasons[e.Reason]++
		}
		if reasons["too_large"] != 1 || reasons["unknown_topic"] != 1 || reasons[deadletter.Held] < 1 {
			t.Errorf("letters: %v", reasons)
		}
		for id, e := range entries {
			if e.Reason != "unknown_topic" {
				continue
			}
			if out := l.resolve(t, "missing", id); out[0].Reason != "unknown_topic" || out[0].Err == nil {
				t.Errorf("published again to a missing topic: %+v", out)
			}
			if again := l.entries(t)[id]; again.Attempts != 1 || !strings.HasSuffix(again.Error, "the topic does not exist") {
				t.Errorf("entry: %+v", again)
			}
		}
		l.answered(t, l.send(t, fact{"b", "t", "2"}))
	})
}

// A key with more events than a chunk takes comes to an end: those that come meanwhile wait for the chunk, behind it.
func TestBusyKeyIsReleased(t *testing.T) {
	eachDelivery(t, func(t *testing.T, l *lettered) {
		l.answered(t, l.send(t, fact{"a", "", "0"}))
		stop, stopped := make(chan struct{}), make(chan uint64)
		go func() {
			n := 1
			for {
				select {
				case <-stop:
					stopped <- l.send(t, fact{"a", "t", strconv.Itoa(n)})
					return
				case <-time.After(time.Millisecond):
				}
				if l.index.Summary().Events < 100 { // a busy machine would get ever further behind
					l.send(t, fact{"a", "t", strconv.Itoa(n)})
					n++
				}
			}
		}()
		eventually(t, "the key to be free", func() bool {
			entries, letters := l.entries(t), l.letters(t)
			ids := slices.SortedFunc(maps.Keys(entries), func(a, b string) int { return entries[a].Order.Compare(entries[b].Order) })
			ids = slices.DeleteFunc(ids, func(id string) bool { return entries[id].Done != "" || letters[id] == nil })
			if len(ids) > 0 {
				l.resolve(t, "t", ids...)
			}
			testenv.Must(t, l.CloseKeys(t.Context(), []string{"public.outbox\x00a"}))
			eventually(t, "its letters to be written", func() bool {
				work, _ := l.index.Retryable(1<<20, func(*deadletter.Work) bool { return true })
				return len(work) == l.index.Summary().Events
			})
			return l.index.Summary().Events == 0 && len(ids) > 0
		})
		close(stop)
		l.answered(t, <-stopped)
		got := strings.Fields(l.published(t, "a"))
		for i := range got {
			if got[i] != strconv.Itoa(i) {
				t.Fatalf("event %d is %s of %d", i, got[i], len(got))
			}
		}
	})
}

// A row whose position was not saved comes again after a restart: it stays the same letter, and is not published, because its
// letter would be left.
func TestLetterIsMetAgain(t *testing.T) {
	eachDelivery(t, func(t *testing.T, l *lettered) {
		l.answered(t, l.send(t, fact{"a", "", "1"}, fact{"a", "t", "2"}))
		l.restart(t, func(string) bool { return false })
		if out := l.resolve(t, "t", "a/1@0000000000000100/0"); !out[0].Skipped {
			t.Errorf("published before its row has come: %+v", out)
		}
		l.next = 1
		l.answered(t, l.send(t, fact{"a", "t", "1"}, fact{"a", "t", "2"}))
		entries := l.entries(t)
		if len(entries) != 2 || entries["a/1@0000000000000100/0"].Reason != "unroutable" || entries["a/1@0000000000000100/0"].Order.Epoch != 2 {
			t.Errorf("letters: %+v", entries)
		}
		l.resolve(t, "t", "a/1@0000000000000100/0", "a/2@0000000000000100/1")
		if a := l.published(t, "a"); a != "1 2" {
			t.Errorf("published: %q", a)
		}
	})
}

// A repair reads rows once more: a letter of one before stays before those of its key that came from the log meanwhile, and do not come again.
// That position may have passed these, or not yet, as with the slot alone. Two rows with one ID cannot both be letters.
func TestLettersOfRepairs(t *testing.T) {
	for _, passed := range []func(string) bool{func(place string) bool { return !cdc.OfTable(place) }, func(string) bool { return false }} {
		eachDelivery(t, func(t *testing.T, l *lettered) {
			l.ofTable = true
			l.answered(t, l.send(t, fact{"a", "", "1"}, fact{"b", "", "1"}, fact{"b", "t", "2"}))
			l.restart(t, nil)
			l.ofTable = false
			l.answered(t, l.send(t, fact{"a", "t", "2"}))
			l.restart(t, passed)
			l.ofTable = true
			l.answered(t, l.send(t, fact{"a", "t", "1"}, fact{"b", "t", "1"}, fact{"b", "t", "2"}))
			first, second := "a/1@0000000000000000/0", "a/2@0000000000000200/0"
			entries := l.entries(t)
			b := entries["b/1@0000000000000000/1"]
			if len(entries) != 4 || entries[first].Order.Compare(entries[second].Order) >= 0 || b.Order.Epoch != 3 || b.Order.Compare(entries["b/2@0000000000000000/2"].Order) >= 0 {
				t.Errorf("letters: %+v", entries)
			}
			l.restart(t, nil)
			if out := l.resolve(t, "t", second); !out[0].Skipped {
				t.Errorf("it overtakes: %+v", out)
			}
			l.resolve(t, "t", first, second)
			if a := l.published(t, "a"); a != "1 2" {
				t.Errorf("published: %q", a)
			}
			l.answered(t, l.send(t, fact{"c", "", "1"}))
			l.send(t, fact{"c", "", "1"})
			var stop *cdc.StopError
			l.await(t, "the stop", func() bool { return l.err != nil })
			if !errors.As(l.err, &stop) || stop.Reason != "same_event_id" {
				t.Error(l.err)
			}
		})
	}
}

// Dropped letters are gone, and the letters behind them stay. At the limit nothing more is accepted, and letters can be resolved.
func TestDropAndLimit(t *testing.T) {
	eachDelivery(t, func(t *testing.T, l *lettered) {
		l.opts.Letters.MaxLetters = 2
		l.restart(t, nil)
		l.answered(t, l.send(t, fact{"a", "", "1"}, fact{"a", "t", "2"}))
		waiting := l.send(t, fact{"b", "t", "1"})
		if !l.index.Full() {
			t.Error("it is not full")
		}
		if out := l.resolve(t, "", "a/1@0000000000000100/0"); out[0] != (deadletter.Outcome{}) {
			t.Errorf("not dropped: %+v", out)
		}
		l.answered(t, waiting)
		if entries := l.entries(t); len(entries) != 1 || entries["a/2@0000000000000100/1"] == nil {
			t.Errorf("left: %v", entries)
		}
	})
}

// A row whose letter was dropped comes again, because its position was not saved: it is not published and does not become a letter, while
// what waited behind it does. Once its row cannot come again nothing is left of it. A drop that was accepted goes on after a start; other asks
// do not.
func TestRowOfADroppedLetterComesAgain(t *testing.T) {
	eachDelivery(t, func(t *testing.T, l *lettered) {
		rows := []fact{{"a", "", "1"}, {"a", "t", "2"}, {"a", "t", "3"}}
		l.answered(t, l.send(t, rows...))
		refused, held, left := "a/1@0000000000000100/0", "a/2@0000000000000100/1", "a/3@0000000000000100/2"
		var drop []deadletter.Resolution
		for id, e := range l.entries(t) {
			if id != left {
				drop = append(drop, deadletter.Resolution{Work: deadletter.Work{ID: id, Partition: e.Partition, Order: e.Order, Hold: e.HoldName()}})
			}
		}
		if out, err := l.Resolve(t.Context(), drop); err != nil || !slices.Equal(out, make([]deadletter.Outcome, 2)) {
			t.Fatalf("%+v, %v", out, err)
		}
		for id, a := range map[string]*deadletter.Ask{
			"accepted": {Do: deadletter.Drop, State: deadletter.Accepted, Letters: []string{left}},
			"again":    {Do: deadletter.Drop, Again: true, Letters: []string{left}},
			"asked":    {Do: deadletter.Drop, Letters: []string{left}},
			"ended":    {Do: deadletter.Drop, State: deadletter.Ended},
			"retry":    {Do: deadletter.Retry, State: deadletter.Accepted},
		} {
			testenv.Must(t, l.WriteIndex(t.Context(), map[string][]byte{string(deadletter.AskKey(id)): a.Encode()}))
		}
		l.restart(t, func(string) bool { return false })
		if len(l.accepted) != 2 || l.accepted["accepted"] == nil || l.accepted["again"] == nil {
			t.Errorf("asks that go on: %+v", l.accepted)
		}
		l.next = 1
		l.answered(t, l.send(t, rows...))
		entries := l.entries(t)
		if len(entries) != 3 || entries[refused].Done != deadletter.Dropped || entries[held].Done != deadletter.Dropped || entries[left].Done != "" || l.index.Summary().Events != 1 {
			t.Errorf("letters: %+v", entries)
		}
		l.restart(t, nil)
		if entries := l.entries(t); len(entries) != 1 || entries[left] == nil || l.published(t, "a") != "" {
			t.Errorf("letters: %+v, published %q", entries, l.published(t, "a"))
		}
	})
}

// Letters of another source are refused: two databases of the same name may share the default topic by accident.
func TestForeignLetters(t *testing.T) {
	eachDelivery(t, func(t *testing.T, l *lettered) {
		other := source()
		other.SystemID = "2"
		if fix := l.refuses(t, other, "foreign_dead_letters").Fix; !strings.Contains(fix, "before its first start") || !strings.Contains(fix, "`cdc-relay replay --id ID`") {
			t.Error(fix)
		}
	})
}

// Letters of a table that has another name now are refused: its events would pass them.
func TestLettersOfAnotherTable(t *testing.T) {
	eachDelivery(t, func(t *testing.T, l *lettered) {
		l.answered(t, l.send(t, fact{"a", "", "1"}))
		l.opts.Letters.Tables[0] = "public.events"
		if stop := l.refuses(t, source(), "dead_letter_of_another_table"); !strings.Contains(stop.Error(), "public.outbox") {
			t.Error(cdc.Explain(stop))
		}
	})
}

// refuses verifies that a start stops for the letters that are there.
func (l *lettered) refuses(t *testing.T, s cdc.Source, reason string) (stop *cdc.StopError) {
	t.Helper()
	l.Kill()
	l.Reset()
	mustOpen(t, l.Publisher)
	if l.exactlyOnce {
		if _, err := l.Commit(t.Context(), "barrier", nil); err != nil {
			t.Fatal(err)
		}
	}
	_, err := l.LoadLetters(t.Context(), s, func(string) bool { return true })
	if !errors.As(err, &stop) || stop.Reason != reason {
		t.Fatalf("accepted: %v", err)
	}
	return stop
}
