package publisher_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// toEach makes a message for each of n topics.
func toEach(n int) []cdc.Message {
	var all []cdc.Message
	for i := range n {
		all = append(all, to("made-"+strconv.Itoa(i), msg("k", strconv.Itoa(i)))...)
	}
	return all
}

func TestTopicsAreCreatedTogether(t *testing.T) {
	for _, c := range []struct {
		name               string
		topics, partitions int
		requests           int
	}{
		{"one request", 60, 4, 1},
		{"no more than a controller takes", 7, 600, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := newCluster(t, 1, 1)
			requests := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Observe: true, Count: -1})
			opts := options(cluster)
			opts.Create = &kafka.TopicSpec{Partitions: int32(c.partitions), ReplicationFactor: 1}
			s := open(t, opts)
			s.send(t, toEach(c.topics)...)
			s.answered(t, 1)
			if n := requests.Hits(); n != c.requests {
				t.Errorf("%d topics took %d requests, want %d", c.topics, n, c.requests)
			}
		})
	}
}

func TestOneTopicOfManyCannotBeCreated(t *testing.T) {
	c := newCluster(t, 1, 1)
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Topic: "bad", Err: kerr.InvalidReplicationFactor, Count: -1})
	opts := options(c)
	opts.Create = &kafka.TopicSpec{Partitions: 1, ReplicationFactor: 1}
	s := open(t, opts)
	s.send(t, toEach(20)...)
	s.send(t, to("bad", msg("k", "a"))...)
	if err := s.failed(t); !strings.Contains(err.Error(), `"bad"`) {
		t.Errorf("the error %q does not name the topic", err)
	}
	s.answered(t, 1)
}

// A broker's quota for new topics delays a topic, and never counts as a failed topic.
func TestTopicIsCreatedWhenTheQuotaAllows(t *testing.T) {
	c := newCluster(t, 1, 1)
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Topic: "made-1", Err: kerr.ThrottlingQuotaExceeded, Count: 3})
	opts := options(c)
	opts.Timing.Patience = 1 // over at once
	opts.Create = &kafka.TopicSpec{Partitions: 1, ReplicationFactor: 1}
	s := open(t, opts)
	s.send(t, toEach(3)...)
	s.answered(t, 1)
}

// While the metadata lags behind a new topic, brokers say that it exists already: this is one topic created, not several.
func TestNewTopicIsCreatedOnce(t *testing.T) {
	c := newCluster(t, 1, 1)
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "made-0", Err: kerr.UnknownTopicOrPartition, Count: 4})
	opts := options(c)
	opts.Create = &kafka.TopicSpec{Partitions: 1, ReplicationFactor: 1}
	p, log := logged(t, opts)
	testenv.Must(t, p.Send(t.Context(), &cdc.Routed{Batch: &cdc.Batch{Seq: 1, Txs: []cdc.Tx{{}}}, Messages: toEach(1)}))
	if got := <-p.Durable(); got.Err != nil || strings.Count(log.String(), "topic created") != 1 {
		t.Errorf("%v; the log:\n%s", got.Err, log)
	}
}
