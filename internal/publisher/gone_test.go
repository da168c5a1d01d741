package publisher_test

import (
	"errors"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// onMetadata is a fault for what metadata says of topic "t".
func onMetadata(err *kerr.Error) kfake.Fault {
	return kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "t", Err: err, Count: -1}
}

// refreshes is longer than a request on a busy machine takes: a refresh meanwhile puts off what follows from the answer.
const refreshes = 200 * time.Millisecond

// metadataOf returns a function that waits until the publisher has asked for metadata, and had the answer, each time anew.
func metadataOf(c *kfake.Cluster) (asked func(t *testing.T)) {
	requests := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Observe: true, Count: -1})
	return func(t *testing.T) {
		t.Helper()
		before := requests.Hits()
		eventually(t, "the publisher to have asked for metadata", func() bool { return requests.Hits() > before+2 })
	}
}

// givenUp returns a function that waits until the publisher has given a topic up since: it needs a new producer ID then.
func givenUp(t *testing.T, c *kfake.Cluster) (await func()) {
	t.Helper()
	renewed := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Observe: true, Count: -1})
	return func() {
		t.Helper()
		eventually(t, "the topic to be given up", func() bool { return renewed.Hits() > 0 })
	}
}

func growTopic(t *testing.T, c *kfake.Cluster, topic string, count int) {
	t.Helper()
	grown, err := admin(t, c.ListenAddrs()).UpdatePartitions(t.Context(), count, topic)
	if err = errors.Join(err, grown.Error()); err != nil {
		t.Fatal(err)
	}
}

// A topic was found missing while a batch was in flight, and the batch arrives all the same: what was queued behind it
// is dropped with the rest, and not sent beside what comes later.
func TestLateSuccessForMissingTopic(t *testing.T) {
	c := newCluster(t, 1, 1)
	opts := options(c)
	opts.Timing.MetadataInterval, opts.Timing.Patience, opts.UnknownTopic = refreshes, 50*time.Millisecond, cdc.PolicyDrop
	s := open(t, opts)
	s.answered(t, s.send(t, msg("k", "0")))
	held, release := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	c.ControlKey(produceKey, func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if first.CompareAndSwap(false, true) {
			close(held)
			c.SleepControl(func() { <-release })
		}
		return nil, nil, false
	})
	s.send(t, msg("k", "1"))
	<-held
	s.send(t, msg("k", "2"))
	absent := c.Fault(onMetadata(kerr.UnknownTopicOrPartition))
	eventually(t, "the topic to be found missing", func() bool {
		s.send(t, msg("k", strconv.Itoa(int(s.next)-1)))
		return metric(t, s.reg, "cdc_relay_events_dropped_total") > 0
	})
	close(release)
	s.answered(t, s.next-1)
	absent.Remove()
	last := ""
	eventually(t, "the topic to be used again", func() bool {
		before := metric(t, s.reg, "cdc_relay_events_published_total")
		last = strconv.Itoa(int(s.next))
		s.answered(t, s.send(t, msg("k", last)))
		return metric(t, s.reg, "cdc_relay_events_published_total") > before
	})
	if got, want := values(read(t, c.ListenAddrs(), "t", 3)), []string{"0", "1", last}; !slices.Equal(got, want) {
		t.Errorf("published %v, want %v", got, want)
	}
}

// A topic that is deleted, or a right that is missing, while nothing is queued for the topic does not stop the relay: both may be there again
// when they are needed.
func TestIdleTopicIsMissingForAWhile(t *testing.T) {
	for _, missing := range []*kerr.Error{kerr.UnknownTopicOrPartition, kerr.TopicAuthorizationFailed} {
		t.Run(missing.Message, func(t *testing.T) {
			c := newCluster(t, 1, 2)
			opts := options(c)
			opts.Timing.MetadataInterval, opts.Timing.Patience = refreshes, 50*time.Millisecond
			s := open(t, opts)
			s.answered(t, s.send(t, numbered(0, 10, 3)...))
			await := givenUp(t, c)
			fault := c.Fault(onMetadata(missing))
			await()
			fault.Remove()
			for i := range 3 {
				s.answered(t, s.send(t, numbered(10+10*i, 10, 3)...))
			}
			inOrder(t, c.ListenAddrs(), 40, 3)
		})
	}
}

// A broker with old metadata returns the partition count before an increase: the relay does not stop.
func TestOldPartitionCountDoesNotStop(t *testing.T) {
	c := newCluster(t, 1, 2)
	opts := options(c)
	opts.Timing.MetadataInterval, opts.Timing.Patience = 20*time.Millisecond, time.Minute
	s := open(t, opts)
	s.answered(t, s.send(t, numbered(0, 20, 9)...))
	growTopic(t, c, "t", 4)
	metadataOf(c)(t)
	behind := 3
	told := make(chan struct{})
	c.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if behind--; behind == 0 {
			c.DropControl()
			close(told)
		}
		return twoPartitions(c, req.(*kmsg.MetadataRequest)), nil, true
	})
	<-told
	s.answered(t, s.send(t, numbered(20, 20, 9)...))
	if n := len(read(t, c.ListenAddrs(), "t", 40)); n != 40 {
		t.Errorf("%d records, want 40", n)
	}
}

// twoPartitions answers that "t" has two.
func twoPartitions(c *kfake.Cluster, req *kmsg.MetadataRequest) *kmsg.MetadataResponse {
	res := req.ResponseKind().(*kmsg.MetadataResponse)
	res.Version = req.Version
	leader := c.LeaderFor("t", 0)
	broker := kmsg.NewMetadataResponseBroker()
	broker.NodeID, broker.Host = leader, "127.0.0.1"
	broker.Port = port(c.ListenAddrs()[0])
	topic := kmsg.NewMetadataResponseTopic()
	topic.Topic = new("t")
	for id := range int32(2) {
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Partition, p.Leader, p.Replicas, p.ISR = id, leader, []int32{leader}, []int32{leader}
		topic.Partitions = append(topic.Partitions, p)
	}
	res.Brokers, res.Topics = append(res.Brokers, broker), append(res.Topics, topic)
	return res
}

func port(addr string) int32 {
	_, p, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(p)
	return int32(n)
}

// A topic that was deleted and created again with fewer partitions, while no message waited for it, is used as it is now.
func TestIdleTopicIsCreatedAgainWithFewerPartitions(t *testing.T) {
	c := newCluster(t, 1, 4)
	opts := options(c)
	opts.Timing.MetadataInterval, opts.Timing.Patience = refreshes, 50*time.Millisecond
	s := open(t, opts)
	s.answered(t, s.send(t, numbered(0, 20, 9)...))
	await := givenUp(t, c)
	c.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return twoPartitions(c, req.(*kmsg.MetadataRequest)), nil, true
	})
	await()
	s.answered(t, s.send(t, numbered(20, 20, 9)...))
}
