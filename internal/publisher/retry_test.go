package publisher_test

import (
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// onProduce is a fault for produce requests to topic "t".
func onProduce(err *kerr.Error, count int) kfake.Fault {
	return kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "t", Err: err, Count: count}
}

func TestRetryableErrorsRepeatTheSameBatch(t *testing.T) {
	for _, err := range []*kerr.Error{
		kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.NotLeaderForPartition, kerr.LeaderNotAvailable,
		kerr.RequestTimedOut, kerr.KafkaStorageError, kerr.FencedLeaderEpoch, kerr.UnknownServerError, kerr.CorruptMessage,
		kerr.UnknownTopicOrPartition, kerr.TopicAuthorizationFailed,
	} {
		t.Run(err.Message, func(t *testing.T) {
			c := newCluster(t, 1, 1)
			w := watch(c)
			c.Fault(onProduce(err, 3))
			opts := options(c)
			opts.Timing.Patience = patience
			s := open(t, opts)
			s.send(t, numbered(0, 5, 1)...)
			s.answered(t, 1)
			all := w.list()
			if len(all) != 4 {
				t.Fatalf("%d attempts, want 4", len(all))
			}
			for _, b := range all[1:] {
				if b.pid != all[0].pid || b.seq != all[0].seq || b.n != all[0].n || !slices.Equal(b.records, all[0].records) {
					t.Errorf("attempt %+v differs from the first %+v", b, all[0])
				}
			}
			if n := len(read(t, c.ListenAddrs(), "t", 5)); n != 5 {
				t.Errorf("%d records, want 5", n)
			}
			if n := metric(t, s.reg, "cdc_relay_publish_errors_total"); n != 3 {
				t.Errorf("%v errors counted, want 3", n)
			}
		})
	}
}

func TestDuplicateSequenceIsSuccess(t *testing.T) {
	c := newCluster(t, 1, 1)
	known := c.Fault(onProduce(kerr.DuplicateSequenceNumber, -1))
	s := open(t, options(c))
	s.answered(t, s.send(t, msg("k", "a")))
	if n := known.Hits(); n != 1 {
		t.Errorf("%d attempts, want 1", n)
	}
}

// deaf loses one answer after each arming: with the connection, or with everything after it on a connection that stays open.
type deaf struct {
	net.Conn
	armed *atomic.Int32
	hangs bool
	dead  atomic.Bool
}

func (d *deaf) Write(b []byte) (int, error) {
	if !d.dead.Load() && !d.armed.CompareAndSwap(1, 0) {
		return d.Conn.Write(b)
	}
	d.dead.Store(true)
	if d.hangs {
		return len(b), nil
	}
	_ = d.Close()
	return 0, net.ErrClosed
}

// deafCluster loses one answer each time that it is armed with 1.
func deafCluster(t *testing.T, brokers, partitions int, hangs bool) (*kfake.Cluster, *atomic.Int32) {
	t.Helper()
	armed := new(atomic.Int32)
	return newCluster(t, brokers, partitions, wrapping(func(conn net.Conn) net.Conn { return &deaf{Conn: conn, armed: armed, hangs: hangs} })), armed
}

// A connection is lost while later messages of the partition wait: the batch that was in flight is still the first.
func TestLostBatchStaysAhead(t *testing.T) {
	c := newCluster(t, 1, 1)
	reached, waiting := make(chan struct{}), make(chan struct{})
	c.ControlKey(produceKey, func(kmsg.Request) (kmsg.Response, error, bool) {
		close(reached)
		select {
		case <-waiting:
		case <-t.Context().Done():
		}
		return nil, net.ErrClosed, true // not appended
	})
	s := open(t, options(c))
	s.send(t, numbered(0, 5, 1)...)
	<-reached
	last := s.send(t, numbered(5, 5, 1)...)
	eventually(t, "later messages in the queue", func() bool { return s.Accepted() == last })
	close(waiting)
	s.answered(t, last)
	inOrder(t, c.ListenAddrs(), 10, 1)
}

func TestLeaderMoves(t *testing.T) {
	c := newCluster(t, 3, 6)
	s := open(t, options(c))
	const rounds, size = 60, 30
	for i := range rounds {
		s.send(t, numbered(i*size, size, 7)...)
		if i%5 == 0 {
			c.ShufflePartitionLeaders()
		}
	}
	s.answered(t, rounds)
	inOrder(t, c.ListenAddrs(), rounds*size, 7)
}

func TestSequenceResetKeepsOrder(t *testing.T) {
	for _, err := range []*kerr.Error{kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID, kerr.InvalidProducerEpoch} {
		t.Run(err.Message, func(t *testing.T) {
			c := newCluster(t, 1, 4)
			w := watch(c)
			s := open(t, options(c))
			s.send(t, numbered(0, 40, 9)...)
			s.answered(t, 1)
			before := w.list()[0].pid
			c.Fault(onProduce(err, 2))
			for i := range 10 {
				s.send(t, numbered(40+i*10, 10, 9)...)
			}
			s.answered(t, 11)
			inOrder(t, c.ListenAddrs(), 140, 9)
			pids := w.sequences(t)
			if len(pids) < 2 || len(pids) > 3 || pids[0] != before {
				t.Errorf("producer ids %v, want one or two new ones", pids)
			}
		})
	}
}

// A record may be in the log although the answer was lost and a later attempt is refused. If the next
// record had its sequence number, it would pass for a duplicate and be lost.
func TestRefusedAfterLostResponse(t *testing.T) {
	c, armed := deafCluster(t, 1, 1, false)
	attempt := 0
	c.ControlKey(produceKey, func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		switch attempt++; attempt {
		case 2:
			armed.Store(1)
		case 3:
			c.Fault(onProduce(kerr.MessageTooLarge, 1))
		}
		return nil, nil, false
	})
	opts := options(c)
	opts.TooLarge = cdc.PolicyDrop
	s := open(t, opts)
	for i := range 4 {
		s.answered(t, s.send(t, numbered(i, 1, 1)...))
	}
	if n := metric(t, s.reg, "cdc_relay_events_dropped_total"); n != 1 {
		t.Fatalf("%v events dropped, want the second", n)
	}
	if got := values(read(t, c.ListenAddrs(), "t", 4)); !slices.Equal(got, []string{"0", "1", "2", "3"}) {
		t.Errorf("published %v", got)
	}
}

// A leader that is deposed while it waits for its replicas has appended the batch. If another one then refuses it, its sequence numbers are
// not free: the next batch would pass for a duplicate and be lost.
func TestRefusedAfterAnotherLeaderMayHaveAppended(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.KafkaStorageError, kerr.UnknownTopicOrPartition, kerr.NotEnoughReplicas} {
		c := newCluster(t, 1, 1)
		ids := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Observe: true, Count: -1})
		opts := options(c)
		opts.TooLarge = cdc.PolicyDrop
		s := open(t, opts)
		s.answered(t, s.send(t, numbered(0, 1, 1)...))
		before := ids.Hits()
		c.Fault(onProduce(code, 1))
		c.Fault(onProduce(kerr.MessageTooLarge, 1))
		for i := range 2 {
			s.answered(t, s.send(t, numbered(1+i, 1, 1)...))
		}
		if dropped, renewed := metric(t, s.reg, "cdc_relay_events_dropped_total"), ids.Hits() > before; dropped != 1 || renewed != (code != kerr.NotEnoughReplicas) {
			t.Errorf("%s: %v dropped, a new producer ID: %t", code.Message, dropped, renewed)
		}
	}
}

// The connection hangs on which the second request to publish came, so that its answer gets lost.
func TestHungBrokerIsLeftForTheNewLeader(t *testing.T) {
	var attempts atomic.Int32
	c, armed := deafCluster(t, 2, 1, true)
	c.ControlKey(produceKey, func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if attempts.Add(1) == 2 {
			armed.Store(1)
		}
		return nil, nil, false
	})
	opts := options(c)
	opts.Kafka.RequestTimeout = time.Hour
	s := open(t, opts)
	s.answered(t, s.send(t, msg("k", "a")))
	last := s.send(t, msg("k", "b"))
	eventually(t, "the answer to get lost", func() bool { return attempts.Load() >= 2 && armed.Load() == 0 })
	testenv.Must(t, c.MoveTopicPartition("t", 0, 1-c.LeaderFor("t", 0)))
	s.answered(t, last)
	if got := values(read(t, c.ListenAddrs(), "t", 2)); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("published %v", got)
	}
}

// A broker that is cut off from the controllers answers for ever with what it knew before: other brokers are asked, too, and messages
// wait for their answer in order.
func TestOldMetadata(t *testing.T) {
	for name, known := range map[string]bool{"an earlier leader": true, "a topic that is not known yet": false} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 3, 1)
			testenv.Must(t, c.MoveTopicPartition("t", 0, 2))
			c.ControlKey(kmsg.Metadata.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				res, _ := req.ResponseKind().(*kmsg.MetadataResponse)
				for i, addr := range c.ListenAddrs() {
					at := netip.MustParseAddrPort(addr)
					res.Brokers = append(res.Brokers, kmsg.MetadataResponseBroker{NodeID: int32(i), Host: at.Addr().String(), Port: int32(at.Port())})
				}
				tp := kmsg.MetadataResponseTopic{Topic: new("t"), ErrorCode: kerr.UnknownTopicOrPartition.Code}
				if known {
					tp.ErrorCode, tp.Partitions = 0, []kmsg.MetadataResponseTopicPartition{{Leader: 1}}
				}
				res.Topics = append(res.Topics, tp)
				return res, nil, c.CurrentNode() == 0
			})
			opts := optionsAt(c.ListenAddrs()[0])
			opts.UnknownTopic, opts.Timing.Patience = cdc.PolicyDrop, time.Nanosecond // over before another broker is asked
			s := open(t, opts)
			s.send(t, msg("k", "a"))
			s.answered(t, s.send(t, msg("k", "b")))
			if got := values(read(t, c.ListenAddrs()[1:], "t", 2)); !slices.Equal(got, []string{"a", "b"}) {
				t.Errorf("published %v", got)
			}
		})
	}
}
