package publisher_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// to sets the topic of messages.
func to(topic string, msgs ...cdc.Message) []cdc.Message {
	for i := range msgs {
		msgs[i].Topic = topic
	}
	return msgs
}

// createTopic makes a topic with a client that is not the publisher's.
func createTopic(t *testing.T, addrs []string, topic string, partitions int32, configs map[string]string) {
	t.Helper()
	settings := map[string]*string{}
	for name, value := range configs {
		settings[name] = &value
	}
	if _, err := admin(t, addrs).CreateTopic(t.Context(), partitions, 1, settings, topic); err != nil {
		t.Fatal(err)
	}
}

func admin(t *testing.T, addrs []string) *kadm.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addrs...))
	testenv.Must(t, err)
	t.Cleanup(client.Close)
	return kadm.NewClient(client)
}

func TestUnknownTopicDrops(t *testing.T) {
	c := newCluster(t, 1, 1)
	opts := options(c)
	opts.UnknownTopic, opts.Timing.Patience = cdc.PolicyDrop, 50*time.Millisecond
	var later atomic.Int64
	opts.Timing.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	s := open(t, opts)
	s.send(t, append(to("nowhere", msg("k", "a")), numbered(0, 10, 1)...)...)
	s.send(t, to("bad name!", msg("k", "a"))...)
	s.answered(t, 2)
	s.send(t, to("nowhere", numbered(0, 4, 1)...)...) // known to be missing
	s.answered(t, 3)
	if n := metric(t, s.reg, "cdc_relay_events_dropped_total"); n != 6 {
		t.Errorf("%v events counted as dropped, want 6", n)
	}
	createTopic(t, c.ListenAddrs(), "nowhere", 1, nil)
	later.Store(int64(2 * time.Second)) // a missing topic is asked for once a second
	s.send(t, to("nowhere", msg("k", "b"))...)
	s.answered(t, 4)
	if got := values(read(t, c.ListenAddrs(), "nowhere", 1)); !slices.Equal(got, []string{"b"}) {
		t.Errorf("published %v", got)
	}
}

// An event that comes while metadata is asked for the last time before the patience is over waits for the answer.
func TestUnknownTopicStopsForLaterEventsToo(t *testing.T) {
	c := newCluster(t, 1, 1)
	var later atomic.Int64
	held, release, asked := make(chan struct{}), make(chan struct{}), 0
	c.ControlKey(kmsg.Metadata.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if md, _ := req.(*kmsg.MetadataRequest); len(md.Topics) == 1 && *md.Topics[0].Topic == "nowhere" {
			switch asked++; asked {
			case 2:
				later.Store(int64(500 * time.Millisecond)) // another broker is asked next
			case 3:
				close(held)
				c.SleepControl(func() { <-release })
			}
		}
		return nil, nil, false
	})
	opts := options(c)
	opts.UnknownTopic = cdc.PolicyStop
	opts.Timing.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	s := open(t, opts)
	s.answered(t, s.send(t, msg("k", "known")))
	s.send(t, to("nowhere", msg("k", "a"))...)
	<-held
	s.send(t, to("nowhere", msg("k", "b"))...)
	behind := s.send(t, msg("k", "behind"))
	s.await(t, "the message behind", func() bool { return s.done[behind] > 0 })
	close(release)
	var stop *cdc.StopError
	if err := s.failed(t); !errors.As(err, &stop) || stop.Reason != "unknown_topic" {
		t.Errorf("error %v, want a stop", err)
	}
	if n := metric(t, s.reg, "cdc_relay_events_dropped_total"); n != 0 {
		t.Errorf("%v events are dropped", n)
	}
}

// A limit that could not be read is the brokers' to judge by.
func TestUnreadLimit(t *testing.T) {
	c := newCluster(t, 1, 1)
	createTopic(t, c.ListenAddrs(), "large", 1, map[string]string{"max.message.bytes": "10485760"})
	c.ControlKey(int16(kmsg.DescribeConfigs), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return nil, errors.New("the connection is lost"), true
	})
	opts := options(c)
	opts.TooLarge = cdc.PolicyDrop
	s := open(t, opts)
	s.answered(t, s.send(t, to("large", msg("k", strings.Repeat("x", 1<<20)))...))
	if n := metric(t, s.reg, "cdc_relay_events_dropped_total"); n != 0 {
		t.Errorf("%v events are dropped", n)
	}
}

func TestDeniedTopicStops(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.Metadata, kmsg.Produce} {
		t.Run(key.Name(), func(t *testing.T) {
			c := newCluster(t, 1, 1)
			c.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Topic: "t", Err: kerr.TopicAuthorizationFailed, Count: -1})
			opts := options(c)
			opts.Rejected, opts.UnknownTopic, opts.TooLarge = cdc.PolicyDrop, cdc.PolicyDrop, cdc.PolicyDrop
			s := open(t, opts)
			s.send(t, msg("k", "a"))
			var stop *cdc.StopError
			if err := s.failed(t); !errors.As(err, &stop) || stop.Reason != "topic_denied" || stop.Class != cdc.ClassConfig {
				t.Errorf("error %v, want a stop with reason topic_denied", err)
			}
		})
	}
}

func deleteTopic(t *testing.T, c *kfake.Cluster, name string) {
	t.Helper()
	if _, err := admin(t, c.ListenAddrs()).DeleteTopic(t.Context(), name); err != nil {
		t.Fatal(err)
	}
}

// A topic that only seemed to be gone has not forgotten the sequence numbers: they must not begin at 0
// under the same producer id.
func TestTopicSeemsGone(t *testing.T) {
	c := newCluster(t, 1, 1)
	opts := options(c)
	opts.UnknownTopic, opts.Timing.Patience = cdc.PolicyDrop, 50*time.Millisecond
	var later atomic.Int64
	opts.Timing.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	s := open(t, opts)
	for i := range 3 {
		s.answered(t, s.send(t, numbered(i, 1, 1)...))
	}
	gone := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata, kmsg.Produce}, Topic: "t", Err: kerr.UnknownTopicOrPartition, Count: -1})
	s.answered(t, s.send(t, msg("k0", "100")))
	gone.Remove()
	later.Store(int64(2 * time.Second))
	for i := range 3 {
		s.answered(t, s.send(t, numbered(3+i, 1, 1)...))
	}
	if got := values(read(t, c.ListenAddrs(), "t", 6)); !slices.Equal(got, []string{"0", "1", "2", "3", "4", "5"}) {
		t.Errorf("published %v", got)
	}
}

// No limit of a topic helps a record that no request can hold.
func TestRecordLargerThanARequest(t *testing.T) {
	c := newCluster(t, 1, 1)
	createTopic(t, c.ListenAddrs(), "large", 1, map[string]string{"max.message.bytes": "300000000"})
	s := open(t, options(c))
	large := msg("k", "large")
	large.Value = make([]byte, 100<<20)
	s.send(t, to("large", large)...)
	said := cdc.Explain(s.failed(t))
	if strings.Contains(said, "max.message.bytes") || !strings.Contains(said, "a request to Kafka holds") || !strings.Contains(said, "errors.skip") {
		t.Errorf("it says %.400q", said)
	}
}

// Azure Event Hubs closes a connection on a larger request.
func TestRequestsAreBounded(t *testing.T) {
	c := newCluster(t, 1, 100)
	var largest atomic.Int64
	c.ControlKey(produceKey, func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		largest.Store(max(largest.Load(), int64(len(req.AppendTo(nil)))))
		return nil, nil, false
	})
	holdFirst(c)
	s := open(t, options(c))
	for i := range 300 {
		m := msg(strconv.Itoa(i), "")
		m.Value = make([]byte, []int{100, 10_000, 100_000, 400_000}[i%4])
		s.send(t, m)
	}
	s.answered(t, 300)
	if n := largest.Load(); n > 1_046_528 || n < 700_000 {
		t.Errorf("the largest request has %d bytes", n)
	}
}

// With compression only the broker can tell, and a limit may be lowered while the relay runs.
func TestBrokerFindsBatchTooLarge(t *testing.T) {
	for _, compression := range []string{"none", "zstd"} {
		t.Run(compression, func(t *testing.T) {
			c := newCluster(t, 1, 1)
			holdFirst(c)
			c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "t", Err: kerr.MessageTooLarge, Count: 2, When: func(req kmsg.Request) bool {
				return batches(req)[0].n > 10
			}})
			opts := options(c)
			opts.Compression = compression
			s := open(t, opts)
			for i := range 20 {
				s.send(t, numbered(i*5, 5, 1)...)
			}
			s.answered(t, 20)
			inOrder(t, c.ListenAddrs(), 100, 1)
		})
	}
}

func TestKeylessMessagesSpreadByBatch(t *testing.T) {
	c := newCluster(t, 1, 8)
	w := watch(c)
	s := open(t, options(c))
	const rounds, size = 40, 10
	for i := range rounds {
		msgs := numbered(i*size, size, 1)
		for j := range msgs {
			msgs[j].Key = nil
		}
		s.answered(t, s.send(t, msgs...))
	}
	used := map[int32]bool{}
	for _, b := range w.list() {
		used[b.partition] = true
		if b.n != size {
			t.Errorf("a batch of %d records, want all %d in one", b.n, size)
		}
	}
	if len(used) < 3 {
		t.Errorf("%d of 8 partitions used", len(used))
	}
}

func TestSendBlocksWithinItsBound(t *testing.T) {
	c := newCluster(t, 1, 1)
	c.Fault(onProduce(kerr.NotEnoughReplicas, -1))
	opts := options(c)
	opts.SetMaxBuffered(10 << 10)
	s := open(t, opts)
	taken := sendAll(t, s, 1)
	eventually(t, "some batches to be taken", func() bool { return taken.Load() >= 5 })
	<-time.After(300 * time.Millisecond) // long enough for a Send without a bound to take more
	if n := taken.Load(); n > 60 {
		t.Errorf("%d batches of a kilobyte taken, want some 20", n)
	}
}

// sendAll sends batches of a kilobyte until Send blocks for the rest of the test, and counts them.
func sendAll(t *testing.T, s *sink, keys int) *atomic.Int64 {
	t.Helper()
	var taken atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var sending sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		sending.Wait()
	})
	sending.Go(func() {
		for n := range 1000 {
			r := &cdc.Routed{Batch: &cdc.Batch{Seq: uint64(n + 1)}, Messages: numbered(20*n, 20, keys)}
			if err := s.Send(ctx, r); err != nil {
				if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				return
			}
			taken.Add(1)
		}
	})
	return &taken
}

// A request to many partitions would carry a record or two for each, if no more could wait than for one.
func TestMoreMayWaitForMorePartitions(t *testing.T) {
	taken := func(partitions int) *atomic.Int64 {
		c, _ := silentCluster(t, partitions)
		opts := options(c)
		opts.SetMaxBuffered(10 << 10)
		opts.Kafka.RequestTimeout = time.Hour
		s := open(t, opts)
		return sendAll(t, s, 500)
	}
	one, many := taken(1), taken(100)
	eventually(t, "many batches to be taken for a hundred partitions, some 400", func() bool { return many.Load() >= 200 })
	<-time.After(300 * time.Millisecond) // long enough for a Send without a bound to take more
	if n := one.Load(); n > 60 {
		t.Errorf("%d batches of a kilobyte taken for one partition, want some 25", n)
	}
}
