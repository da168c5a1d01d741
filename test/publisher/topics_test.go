package publisher

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

const batchSize, keys = 10, 13

// stream sends batches of numbered messages until stop is closed, and then returns how many.
func stream(t *testing.T, s *sink, topic string, stop <-chan struct{}) <-chan int {
	t.Helper()
	sent := make(chan int)
	go func() {
		n := 0
		pace := time.NewTicker(2 * time.Millisecond)
		defer pace.Stop()
		for {
			select {
			case <-stop:
				sent <- n
				return
			case <-pace.C:
				s.send(t, numbered(topic, n*batchSize, batchSize, keys)...)
				n++
			}
		}
	}()
	return sent
}

// progress waits until more batches are acknowledged.
func progress(t *testing.T, s *sink, what string) {
	t.Helper()
	s.mu.Lock()
	before := len(s.done)
	s.mu.Unlock()
	cdctest.Eventually(t, soon, "answers "+what, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.done) > before+50
	})
}

// everything reads a topic until it has the last of n messages of each key.
func everything(t *testing.T, k *testenv.KafkaCluster, topic string, n int) (records []*kgo.Record) {
	t.Helper()
	left := map[string]bool{}
	for _, m := range numbered(topic, n-keys, keys, keys) {
		left[string(m.Value)] = true
	}
	readAll(t, k.Bootstrap(), topic, func(r *kgo.Record) bool {
		records = append(records, r)
		delete(left, string(r.Value))
		return len(left) == 0
	})
	return records
}

// A topic is deleted and created again under load: publishing continues into the new one, without a gap and in order.
func TestTopicIsDeletedAndCreatedAgainUnderLoad(t *testing.T) {
	t.Parallel()
	newTopic(t, shared, "again", 3, nil)
	s := open(t, publisher.Options{Kafka: kafka.Options{Brokers: shared.Bootstrap()}, Timing: publisher.Timing{Patience: time.Minute}})
	stop := make(chan struct{})
	sent := stream(t, s, "again", stop)
	progress(t, s, "before")
	topics := admin(t, shared)
	id := func() kadm.TopicID {
		details, err := topics.ListTopics(t.Context(), "again")
		testenv.Must(t, err)
		return details["again"].ID
	}
	deleted := id()
	if _, err := topics.DeleteTopic(t.Context(), "again"); err != nil {
		t.Fatal(err)
	}
	cdctest.Eventually(t, soon, "the topic to be created again", func() bool { return shared.CreateTopic(t.Context(), "again", 3, nil) == nil })
	// The controller knows it first. Until the broker does, it acknowledges what is appended to the deleted one.
	cdctest.Eventually(t, soon, "the broker to know it", func() bool { now := id(); return now != deleted && now != kadm.TopicID{} })
	progress(t, s, "after")
	close(stop)
	n := <-sent
	durable(t, s, n)
	o := newOrder(keys)
	for _, r := range everything(t, shared, "again", n*batchSize) {
		o.check(t, r)
	}
}

// Brokers lose the state of an idle producer: its sequence numbers, its transactional ID, and the records with both.
// Publishing continues, even with another producer ID.
func TestProducerStateIsForgotten(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t, testenv.KafkaOptions{Settings: map[string]string{
		"producer.id.expiration.ms": "1000", "producer.id.expiration.check.interval.ms": "100",
		"transactional.id.expiration.ms": "2000", "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
	}})
	newTopic(t, k, "forgotten", 1, nil)
	s := open(t, publisher.Options{Kafka: kafka.Options{Brokers: k.Bootstrap()}, Timing: publisher.Timing{RenewInterval: 10 * time.Second}})
	began := time.Now()
	n := 0
	next := func() {
		t.Helper()
		s.send(t, numbered("forgotten", n*batchSize, batchSize, keys)...)
		n++
		durable(t, s, n)
	}
	for range 3 {
		next()
	}
	first := newest(t, k, "forgotten", n*batchSize-1).ProducerID
	cdctest.Eventually(t, soon, "the sequence numbers to be forgotten", func() bool { return producers(t, k, "forgotten") == 0 })
	next()
	deleteRecords(t, k, "forgotten", int64(n*batchSize))
	for range 3 {
		next()
	}
	<-time.After(time.Until(began.Add(11 * time.Second))) // the coordinator no longer knows the transactional ID when it is renewed
	cdctest.Eventually(t, soon, "another producer ID", func() bool {
		next()
		return newest(t, k, "forgotten", n*batchSize-1).ProducerID != first
	})
	o := newOrder(keys)
	readAll(t, k.Bootstrap(), "forgotten", func(r *kgo.Record) bool {
		o.check(t, r)
		return len(o.seen) == (n-4)*batchSize
	})
	if d := o.duplicates(); d > 0 { // a broker that is slow to answer may have forgotten the batch by then
		t.Errorf("%d duplicates", d)
	}
}

// producers returns the number of producers with state on the leader of partition 0.
func producers(t *testing.T, k *testenv.KafkaCluster, topic string) int {
	t.Helper()
	set := kadm.TopicsSet{}
	set.Add(topic, 0)
	described, err := admin(t, k).DescribeProducers(t.Context(), set)
	p := described[topic].Partitions[0]
	testenv.Must(t, errors.Join(err, p.Err))
	return len(p.ActiveProducers)
}

func deleteRecords(t *testing.T, k *testenv.KafkaCluster, topic string, before int64) {
	t.Helper()
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, 0, before, -1)
	res, err := admin(t, k).DeleteRecords(t.Context(), offsets)
	testenv.Must(t, errors.Join(err, res.Error()))
}

// admin returns a client that is closed with the test.
func admin(t *testing.T, k *testenv.KafkaCluster) *kadm.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(k.Bootstrap()...))
	testenv.Must(t, err)
	t.Cleanup(cl.Close)
	return kadm.NewClient(cl)
}
