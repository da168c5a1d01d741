package publisher_test

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

const positions = "positions"

// openTransactional opens a publisher of transactions, whose barrier and claim are committed.
func openTransactional(t *testing.T, c *kfake.Cluster, changes ...func(*publisher.Options)) *publisher.Publisher {
	t.Helper()
	createTopic(t, c.ListenAddrs(), positions, 1, map[string]string{"cleanup.policy": "compact"})
	opts := options(c)
	opts.PositionTopic, opts.Timing.MetadataInterval, opts.Dropped = positions, 20*time.Millisecond, func(string) {}
	for _, change := range changes {
		change(&opts)
	}
	p := unopened(t, opts)
	reopen(t, p)
	return p
}

// Consumers of committed records do not wait for what an attempt has left open, also if the next one is refused, or there is none.
func TestOpenTransactionEnds(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, c *kfake.Cluster, p *publisher.Publisher){
		"refused": func(t *testing.T, c *kfake.Cluster, p *publisher.Publisher) {
			deleteTopic(t, c, positions)
			p.Reset()
			if err := p.Open(t.Context(), "cdc-relay.test"); err == nil {
				t.Error("opened without the topic of positions")
			}
		},
		"aborted": func(t *testing.T, _ *kfake.Cluster, p *publisher.Publisher) {
			if err := p.Abort(t.Context(), "cdc-relay.test"); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 1, 1)
			p := openTransactional(t, c)
			testenv.Must(t, p.Send(t.Context(), &cdc.Routed{Batch: &cdc.Batch{Seq: 1}, Messages: []cdc.Message{msg("k", "0")}}))
			untilCut(t, p)
			if n := openRecords(t, c); n != 1 {
				t.Fatalf("%d records are open", n)
			}
			p.Kill()
			end(t, c, p)
			if n := openRecords(t, c); n != 0 {
				t.Errorf("%d records are open", n)
			}
		})
	}
}

// untilCut waits until the publisher asks for a commit.
func untilCut(t *testing.T, p *publisher.Publisher) {
	t.Helper()
	for d := range p.Durable() {
		if d.Err != nil {
			t.Fatal(d.Err)
		}
		if d.Cut {
			return
		}
	}
}

// Where nothing is open, a stop makes no request to end it.
func TestAbortOfNothing(t *testing.T) {
	c := newCluster(t, 1, 1)
	p := openTransactional(t, c)
	p.Kill()
	c.ControlKey(kmsg.InitProducerID.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		t.Error("a transaction is aborted")
		return nil, nil, false
	})
	if err := p.Abort(t.Context(), "cdc-relay.test"); err != nil {
		t.Error(err)
	}
}

// openRecords is how many records of topic "t" consumers of committed ones have to wait for.
func openRecords(t *testing.T, c *kfake.Cluster) int64 {
	t.Helper()
	a := admin(t, c.ListenAddrs())
	all, err := a.ListEndOffsets(t.Context(), "t")
	committed, cerr := a.ListCommittedOffsets(t.Context(), "t")
	if err = errors.Join(err, cerr, all.Error(), committed.Error()); err != nil {
		t.Fatal(err)
	}
	return all["t"][0].Offset - committed["t"][0].Offset
}

func reopen(t *testing.T, p *publisher.Publisher) {
	t.Helper()
	mustOpen(t, p)
	for _, key := range []string{"barrier", "position"} {
		if _, err := p.Commit(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// While the coordinator writes the commit before into the partitions, further ones get messages. All are added with one request.
func TestPartitionsAreAddedTogether(t *testing.T) {
	c := newCluster(t, 1, 1)
	createTopic(t, c.ListenAddrs(), "u", 1, nil)
	p := openTransactional(t, c)
	send := func(seq uint64, messages ...cdc.Message) {
		testenv.Must(t, p.Send(t.Context(), &cdc.Routed{Batch: &cdc.Batch{Seq: seq}, Messages: messages}))
	}
	send(1, append(to("u", msg("k", "0")), msg("k", "0"))...) // the publisher knows both topics now
	untilCut(t, p)
	if _, err := p.Commit(t.Context(), "position", nil); err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 1)
	without := 0 // requests since the second topic has a message
	c.ControlKey(int16(kmsg.AddPartitionsToTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		r := req.(*kmsg.AddPartitionsToTxnRequest)
		if len(r.Topics) == 3 { // with that of the position
			return nil, nil, false
		}
		if p.Accepted() == 3 {
			if without++; without > 1 { // one may have been on its way
				t.Error("the second topic is not added")
			}
		}
		select {
		case asked <- struct{}{}:
		default:
		}
		return added(r, func(string) *kerr.Error { return kerr.ConcurrentTransactions }), nil, true
	})
	send(2, msg("k", "1"))
	<-asked
	send(3, to("u", msg("k", "1"))...)
	untilCut(t, p)
}

// A topic may not be written any more. The event that is for it is named, and the events before it, which are for other
// topics, are committed first.
func TestDeniedTopicInATransaction(t *testing.T) {
	c := newCluster(t, 1, 1)
	createTopic(t, c.ListenAddrs(), "denied", 1, nil)
	c.ControlKey(int16(kmsg.AddPartitionsToTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		r := req.(*kmsg.AddPartitionsToTxnRequest)
		if !slices.ContainsFunc(r.Topics, func(t kmsg.AddPartitionsToTxnRequestTopic) bool { return t.Topic == "denied" }) {
			return nil, nil, false
		}
		return deny(r, "denied"), nil, true
	})
	commitsBefore(t, c, to("denied", msg("k", "1")), msg("k", "0"))
}

// So is an event for a partition that its topic does not have.
func TestPartitionBeyondInATransaction(t *testing.T) {
	commitsBefore(t, newCluster(t, 1, 1), into(1, msg("k", "1")), msg("k", "0"))
	commitsBefore(t, newCluster(t, 1, 1), into(1, msg("k", "1"))) // behind a heartbeat
}

// commitsBefore publishes a batch and an event that cannot be published. An attempt with both in one transaction rewinds, and the next one
// stops behind the batch, which is committed.
func commitsBefore(t *testing.T, c *kfake.Cluster, cannot []cdc.Message, before ...cdc.Message) {
	t.Helper()
	p := openTransactional(t, c)
	err := cdc.ErrRewind
	for attempt := 1; errors.Is(err, cdc.ErrRewind); attempt++ {
		if attempt > 1 {
			p.Kill()
			p.Reset()
			reopen(t, p)
		}
		ok := &cdc.Routed{Batch: &cdc.Batch{Seq: 1}, Messages: before}
		bad := &cdc.Routed{Batch: &cdc.Batch{Seq: 2}, Messages: cannot}
		go func() { _, _ = p.Send(t.Context(), ok), p.Send(t.Context(), bad) }()
		for err = nil; err == nil; {
			d := <-p.Durable()
			if err = d.Err; d.Cut {
				if _, err := p.Commit(t.Context(), "position", []byte("1")); err != nil {
					t.Fatal(err)
				}
			}
		}
		if attempt > 2 || !strings.Contains(err.Error(), `"k/1"`) {
			t.Fatalf("attempt %d: %v", attempt, err)
		}
	}
	if value, _, err := p.LastPosition(t.Context(), "position", kafka.Committed); err != nil || string(value) != "1" {
		t.Errorf("committed %q, %v", value, err)
	}
}

// impatient would drop an event at once.
func impatient(o *publisher.Options) {
	o.Timing.Patience, o.Rejected = time.Nanosecond, cdc.PolicyDrop
}

// The right to use the transactional ID is taken away. Whichever request is refused first, the run ends with the grant that is missing, and
// blames no event.
func TestTransactionalIDIsDenied(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.Produce, kmsg.AddPartitionsToTxn, kmsg.EndTxn, kmsg.InitProducerID} {
		t.Run(key.Name(), func(t *testing.T) {
			c := newCluster(t, 1, 1)
			p := openTransactional(t, c, impatient)
			send := func(seq uint64) (err error) {
				go func() {
					_ = p.Send(t.Context(), &cdc.Routed{Batch: &cdc.Batch{Seq: seq}, Messages: []cdc.Message{msg("k", "0")}})
				}()
				for d := range p.Durable() {
					if err = d.Err; err == nil && d.Cut {
						_, err = p.Commit(t.Context(), "position", nil)
					}
					if err != nil || d.Cut {
						return err
					}
				}
				return nil
			}
			testenv.Must(t, send(1))
			c.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: kerr.TransactionalIDAuthorizationFailed, Count: -1})
			var err error
			if key == kmsg.InitProducerID { // the next attempt
				p.Kill()
				p.Reset()
				err = p.Open(t.Context(), "cdc-relay.test")
			} else {
				err = send(2)
			}
			var stop *cdc.StopError
			switch {
			case !errors.As(err, &stop), stop.Class != cdc.ClassConfig, stop.Reason != "kafka_denied", errors.Is(err, cdc.ErrRewind),
				!strings.HasPrefix(stop.Fix, `grant the relay's principal WRITE on the transactional ID "cdc-relay.test"`), strings.Contains(cdc.Explain(err), "skip"):
				t.Errorf("stopped with %v: %s", err, cdc.Explain(err))
			}
		})
	}
}

// deny answers as Kafka does if one topic is denied.
func deny(r *kmsg.AddPartitionsToTxnRequest, name string) kmsg.Response {
	return added(r, func(topic string) *kerr.Error {
		if topic == name {
			return kerr.TopicAuthorizationFailed
		}
		return kerr.OperationNotAttempted
	})
}

// added answers with the error of each topic.
func added(r *kmsg.AddPartitionsToTxnRequest, of func(topic string) *kerr.Error) kmsg.Response {
	res := r.ResponseKind().(*kmsg.AddPartitionsToTxnResponse)
	res.Version = r.Version
	for _, asked := range r.Topics {
		topic := kmsg.NewAddPartitionsToTxnResponseTopic()
		topic.Topic = asked.Topic
		for _, id := range asked.Partitions {
			part := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
			part.Partition, part.ErrorCode = id, of(asked.Topic).Code
			topic.Partitions = append(topic.Partitions, part)
		}
		res.Topics = append(res.Topics, topic)
	}
	return res
}

// Positions are found although somebody has added partitions to their topic while the relay runs.
func TestPositionStaysInItsPartition(t *testing.T) {
	c := newCluster(t, 1, 1)
	p := openTransactional(t, c)
	growTopic(t, c, positions, 3) // the key belongs to another partition now
	metadataOf(c)(t)
	if _, err := p.Commit(t.Context(), "position", []byte("here")); err != nil {
		t.Fatal(err)
	}
	if value, _, err := p.LastPosition(t.Context(), "position", kafka.Committed); err != nil || string(value) != "here" {
		t.Errorf("found %q, %v", value, err)
	}
}

// The coordinator answers with an error for longer than a moment: Kafka is not said to be silent.
func TestAnsweredErrorIsNoOutage(t *testing.T) {
	c := newCluster(t, 1, 1)
	createTopic(t, c.ListenAddrs(), positions, 1, map[string]string{"cleanup.policy": "compact"})
	opts, reg, log := options(c), prometheus.NewRegistry(), &testenv.Log{}
	opts.PositionTopic, opts.Dropped = positions, func(string) {}
	logger := slog.New(slog.NewTextHandler(log, nil))
	opts.Problems = cdc.NewProblems(logger)
	p := publisher.New(opts, logger, reg)
	t.Cleanup(p.Kill)
	reopen(t, p)
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.AddPartitionsToTxn}, Err: kerr.CoordinatorLoadInProgress, Count: -1})
	go func() {
		_ = p.Send(t.Context(), &cdc.Routed{Batch: &cdc.Batch{Seq: 1}, Messages: []cdc.Message{msg("k", "0")}})
	}()
	eventually(t, "a line about it", func() bool { return strings.Contains(log.String(), "cannot publish, retrying") })
	if !strings.Contains(log.String(), sarama.ErrOffsetsLoadInProgress.Error()) {
		t.Error(log.String())
	}
}
