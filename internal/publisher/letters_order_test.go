package publisher_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// A key is free once the index says that its last letter is resolved: a crash in between publishes the letter again, and nothing of
// the key may be behind it yet.
func TestKeyIsFreeOnceTheIndexSaysSo(t *testing.T) {
	eachDelivery(t, func(t *testing.T, l *lettered) {
		l.restartWith(t, func(o *publisher.Options) { o.Timing.Closed = time.Hour })
		l.answered(t, l.send(t, fact{"a", "", "1"}))
		testenv.Must(t, l.CloseKeys(t.Context(), []string{"public.outbox\x00a"}))
		const id = "a/1@0000000000000100/0"
		e := l.entries(t)[id]
		away := l.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: letterIndex, Err: kerr.NotEnoughReplicas, Count: -1})
		published := l.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "t", Observe: true, Count: -1})
		resolved := make(chan error, 1)
		go func() {
			m := msg("a", "1")
			_, err := l.Resolve(t.Context(), []deadletter.Resolution{{Work: deadletter.Work{ID: id, Partition: e.Partition, Order: e.Order, Hold: e.HoldName()}, Message: &m}})
			resolved <- err
		}()
		eventually(t, "the index to be written", func() bool { return away.Hits() > 0 })
		last := l.send(t, fact{"a", "t", "2"})
		eventually(t, "more attempts", func() bool { return away.Hits() > 5 })
		if published.Hits() != 1 {
			t.Errorf("%d requests with events, but the index does not say that the letter is resolved", published.Hits())
		}
		away.Remove()
		testenv.Must(t, <-resolved)
		l.answered(t, last)
		if a := l.published(t, "a"); a != "1 2" {
			t.Errorf("published: %q", a)
		}
	})
}

// A batch is published once the letters of its rows are: a position must not pass an event that is in neither.
func TestRowWaitsForItsLetter(t *testing.T) {
	eachDelivery(t, func(t *testing.T, l *lettered) {
		for _, topic := range []string{letterIndex, letterTopic} {
			away := l.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.NotEnoughReplicas, Count: -1})
			seq := l.send(t, fact{"a", "t", "1"}, fact{"b", "", "1"})
			eventually(t, "some attempts", func() bool { return away.Hits() > 5 })
			l.mu.Lock()
			if l.acked >= seq {
				t.Errorf("batch %d is answered, and %s does not have its letter", seq, topic)
			}
			l.mu.Unlock()
			away.Remove()
			l.answered(t, seq)
		}
	})
}

// A start reads the index behind a barrier in it, and has one in each partition of letters: an earlier relay's late records are
// rejected from there on.
func TestBarrierPrecedesTheIndex(t *testing.T) {
	eachDelivery(t, func(t *testing.T, l *lettered) {
		l.answered(t, l.send(t, fact{"a", "", "1"}))
		l.Kill()
		l.Reset()
		away := l.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: letterIndex, Err: kerr.NotEnoughReplicas, Count: -1})
		read := l.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: letterIndex, Observe: true, Count: -1})
		mustOpen(t, l.Publisher)
		loaded := make(chan *deadletter.Index, 1)
		go func() {
			if l.exactlyOnce {
				_, _ = l.Commit(t.Context(), "barrier", nil)
			}
			all, _ := l.LoadLetters(t.Context(), source(), func(string) bool { return true })
			if l.exactlyOnce {
				_, _ = l.Commit(t.Context(), "position", nil)
			}
			loaded <- all.Index
		}()
		eventually(t, "some attempts", func() bool { return away.Hits() > 5 })
		if read.Hits() > 0 {
			t.Error("the index is read before the barrier")
		}
		away.Remove()
		if index := <-loaded; index == nil || index.Summary().Events != 1 {
			t.Fatalf("loaded %+v", index)
		}
		for id := range int32(4) {
			if n := l.barriers(t, id); n != 2 {
				t.Errorf("partition %d has %d barriers of 2 starts", id, n)
			}
		}
		go l.collect(t.Context(), l.Durable())
		l.answered(t, l.send(t, fact{"b", "t", "1"}))
	})
}

// barriers counts those in a partition of letters.
func (l *lettered) barriers(t *testing.T, partition int32) (n int) {
	t.Helper()
	client := kafka.NewClient(l.opts.Kafka)
	defer client.Close()
	err := client.Read(t.Context(), letterTopic, partition, kafka.Oldest, kafka.Committed, func(r *kafka.Record) error {
		if string(r.Key) == deadletter.Barrier {
			n++
		}
		return nil
	})
	testenv.Must(t, err)
	return n
}

// An event without a payload, and one with an empty payload, are published again as they are.
func TestTombstoneIsPublishedAgain(t *testing.T) {
	eachDelivery(t, func(t *testing.T, l *lettered) {
		l.answered(t, l.send(t, fact{"a", "", "1"}, fact{"a", "t", null}, fact{"a", "t", ""}))
		l.restart(t, nil)
		l.resolve(t, "t", "a/1@0000000000000100/0", "a/"+null+"@0000000000000100/1", "a/@0000000000000100/2")
		records := l.records(t, "t", 3)["a"]
		if len(records) != 3 || records[1].Value != nil || records[2].Value == nil || len(records[2].Value) != 0 {
			t.Errorf("published: %+v", records)
		}
	})
}
