package publisher_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
)

// into names the partition of messages.
func into(partition int32, msgs ...cdc.Message) []cdc.Message {
	for i := range msgs {
		msgs[i].Partition = partition + 1
	}
	return msgs
}

// places are the partitions of records by their values.
func places(records []*kgo.Record) map[string]int32 {
	in := map[string]int32{}
	for _, r := range records {
		in[string(r.Value)] = r.Partition
	}
	return in
}

// A message is in the partition that it names, with a key or without one, and keeps its key.
func TestMessageNamesPartition(t *testing.T) {
	c := newCluster(t, 2, 5)
	s := open(t, options(c))
	for i := range int32(5) {
		keyless := msg("k", fmt.Sprint("keyless ", i))
		keyless.Key = nil
		s.send(t, into(i, msg("k", fmt.Sprint("keyed ", i)), keyless)...)
	}
	s.answered(t, 5)
	records := read(t, c.ListenAddrs(), "t", 10)
	for value, partition := range places(records) {
		if kind, want, _ := strings.Cut(value, " "); want != fmt.Sprint(partition) || kind != "keyed" && kind != "keyless" {
			t.Errorf("%s is in partition %d", value, partition)
		}
	}
	for _, r := range records {
		if keyed := strings.HasPrefix(string(r.Value), "keyed"); keyed != (string(r.Key) == "k") || keyed == (r.Key == nil) {
			t.Errorf("%s has the key %q", r.Value, r.Key)
		}
	}
}

// A dropped message is counted, what comes after it is published in order, and once the topic has more partitions, so is what names one
// of these.
func TestPartitionBeyondDrops(t *testing.T) {
	c := newCluster(t, 1, 1)
	opts := options(c)
	opts.Malformed = cdc.PolicyDrop
	var later atomic.Int64
	opts.Timing.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	s := open(t, opts)
	s.send(t, numbered(0, 10, 1)...)
	s.send(t, append(into(1, msg("k", "beyond"), msg("k", "beyond")), numbered(10, 10, 1)...)...)
	s.answered(t, 2)
	s.send(t, append(into(1<<31-2, msg("k", "beyond")), numbered(20, 10, 1)...)...)
	s.answered(t, 3)
	inOrder(t, c.ListenAddrs(), 30, 1)
	if n := metric(t, s.reg, "cdc_relay_events_dropped_total"); n != 3 {
		t.Errorf("%v events counted as dropped, want 3", n)
	}
	growTopic(t, c, "t", 2)
	later.Store(int64(2 * time.Second)) // the number of partitions is read again once a second
	s.send(t, into(1, msg("k", "there"))...)
	s.answered(t, 4)
	if in := places(read(t, c.ListenAddrs(), "t", 31)); in["there"] != 1 {
		t.Errorf("it is in partition %d", in["there"])
	}
}

// Writers may hear of a new partition before the relay does. What is sent meanwhile waits behind it.
func TestPartitionMayAppearInTime(t *testing.T) {
	c := newCluster(t, 1, 1)
	opts := options(c)
	opts.Timing.Patience = patience
	s := open(t, opts)
	s.answered(t, s.send(t, into(0, msg("k", "0"))...))
	asked := metadataOf(c)
	s.send(t, into(2, msg("k", "1"), msg("k", "2"))...)
	s.send(t, append(into(0, msg("k", "3")), into(2, msg("k", "4"))...)...)
	asked(t)
	growTopic(t, c, "t", 2)
	asked(t)
	growTopic(t, c, "t", 3)
	s.answered(t, 3)
	in := map[int32][]string{}
	for _, r := range read(t, c.ListenAddrs(), "t", 5) {
		in[r.Partition] = append(in[r.Partition], string(r.Value))
	}
	if want := map[int32][]string{0: {"0", "3"}, 2: {"1", "2", "4"}}; fmt.Sprint(in) != fmt.Sprint(want) {
		t.Errorf("published %v, want %v", in, want)
	}
}

// A message for a partition that its topic does not have becomes a letter, which holds its key, and is published once the topic has it.
func TestPartitionBeyondBecomesLetter(t *testing.T) {
	eachDelivery(t, func(t *testing.T, l *lettered) {
		l.answered(t, l.send(t, fact{"a", "t", "1"}, fact{"a", "t", beyond}, fact{"a", "t", "2"}, fact{"b", "t", "1"}))
		l.answered(t, l.send(t, fact{"a", "t", "3"}, fact{"b", "t", "2"}))
		if a, b := l.published(t, "a"), l.published(t, "b"); a != "1" || b != "1 2" {
			t.Errorf("published: %q, %q", a, b)
		}
		const first, second, third = "a/" + beyond + "@0000000000000100/1", "a/2@0000000000000100/2", "a/3@0000000000000200/0"
		entries := l.entries(t)
		if e := entries[first]; e == nil || e.Reason != "malformed" || e.Error != "the topic's last partition is 2" || e.Topic != "t" {
			t.Fatalf("letters: %+v", entries)
		}
		if len(entries) != 3 || entries[second].Reason != deadletter.Held || entries[third].Reason != deadletter.Held {
			t.Errorf("letters: %+v", entries)
		}
		if out := l.resolve(t, "t", first, second); out[0].Reason != "malformed" || !out[1].Skipped {
			t.Errorf("published again: %+v", out)
		}
		growTopic(t, l.cluster, "t", 10)
		for i, out := range l.resolve(t, "t", first, second, third) {
			if out != (deadletter.Outcome{}) {
				t.Errorf("letter %d: %+v", i, out)
			}
		}
		l.answered(t, l.send(t, fact{"a", "t", beyond}))
		if n := len(l.records(t, "t", 10)["a"]); n != 5 || l.index.Summary().Events != 0 {
			t.Errorf("%d records, %d letters", n, l.index.Summary().Events)
		}
		for _, r := range l.records(t, "t", 10)["a"] {
			if (string(r.Value) == beyond) != (r.Partition == 9) {
				t.Errorf("%s is in partition %d", r.Value, r.Partition)
			}
		}
	})
}
