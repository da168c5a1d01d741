package publisher

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/IBM/sarama"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
)

// newLoop makes a loop without connections, and topic "t" with one partition, which broker 1 leads.
func newLoop(t *testing.T) (*loop, *partition) {
	t.Helper()
	m := newMetrics(prometheus.NewRegistry())
	opts := withDefaults(Options{
		Strict: true, MaxMessageBytes: 1048588, RetryInitial: 200 * time.Millisecond, RetryMax: 10 * time.Second,
		Policies: cdc.Policies{UnknownTopic: cdc.PolicyStop, Malformed: cdc.PolicyStop, TooLarge: cdc.PolicyStop, Rejected: cdc.PolicyStop},
	})
	opts.Kafka.RequestTimeout = 15 * time.Second
	l := &loop{
		opts: &opts, log: slog.New(slog.DiscardHandler), metrics: m, mail: newMailbox(), now: time.Now(), stopSeq: noStop,
		jobs: jobQueue{jobs: make(chan job, 1)}, txn: noTransaction{}, letters: withoutLetters(), topics: map[string]*topic{}, lastSeq: new(atomic.Uint64),
	}
	b := &brokerState{id: 1}
	b.conn = &brokerConn{broker: b, connected: true, requests: make(chan *request, 2)}
	tp := &topic{name: "t", limit: 1 << 20, metrics: m.topic("t")}
	p := &partition{topic: tp, leader: b}
	tp.partitions, l.topics[tp.name], l.brokers = []*partition{p}, tp, []*brokerState{b}
	return l, p
}

func routedTo(topic string, seq uint64) *cdc.Routed {
	return &cdc.Routed{Batch: &cdc.Batch{Seq: seq}, Messages: []cdc.Message{{Topic: topic, Key: []byte("k")}}}
}

// A batch belongs to its connection until the response, also if its topic is halted and then found missing meanwhile.
func TestHaltedTopicIsFoundMissingWhileABatchIsInFlight(t *testing.T) {
	for name, code := range map[string]sarama.KError{"acknowledged": sarama.ErrNoError, "rejected": sarama.ErrTopicAuthorizationFailed} {
		t.Run(name, func(t *testing.T) {
			l, p := newLoop(t)
			l.opts.UnknownTopic = cdc.PolicyDrop
			l.accept(routedTo("t", 1))
			l.turn()
			req := <-p.leader.conn.requests
			l.haltTopic(p.topic, errors.New("denied"))
			l.dropPartitions(p.topic, errTopicMissing)
			if p.state != halting || p.batch != req.batches[0] {
				t.Fatalf("the partition is %s, and its batch was taken from the connection: %t", p.state, p.batch == nil)
			}
			res := &sarama.ProduceResponse{Blocks: map[string]map[int32]*sarama.ProduceResponseBlock{"t": {0: {Err: code}}}}
			requestDone{req, res, nil}.apply(l)
			if p.state != halted || p.queue.len() > 0 {
				t.Errorf("the partition is %s with %d messages", p.state, p.queue.len())
			}
		})
	}
}

// A broker that has lost its partitions to another one is forgotten: the relay neither connects to it nor looks for them in each turn.
func TestBrokerThatLeadsNothing(t *testing.T) {
	l, p := newLoop(t)
	gone, conn := p.leader, p.leader.conn
	gone.conn, gone.trouble = nil, trouble{l.now, errBrokerHungUp}
	l.accept(routedTo("t", 1))
	l.brokers = append(l.brokers, &brokerState{id: 2, conn: conn})
	l.setLeader(p, &sarama.PartitionMetadata{Leader: 2})
	l.turn()
	if gone.trouble != (trouble{}) || gone.ready.len() > 0 || p.state != inFlight {
		t.Errorf("trouble %v, %d ready, the partition is %s", gone.trouble, gone.ready.len(), p.state)
	}
}

// An answer that no policy is for stops a publisher of transactions, whatever errors.rejected is: the fix does not name it. A letter that is
// published again is a reason only if it was held: other attempts are counted.
func TestUnexpectedErrorInATransaction(t *testing.T) {
	for name, of := range map[string]*pendingBatch{
		"event": {seq: 2}, "held letter": {seq: 3, kind: republished, item: &item{}},
		"other letter": {seq: 3, kind: republished, item: &item{Resolution: deadletter.Resolution{Work: deadletter.Work{Attempts: 1}}}},
	} {
		l, p := newLoop(t)
		l.transactional = true
		l.queue(&routedTo("t", 2).Messages[0], of)
		l.turn()
		l.txn = &kafkaTransaction{loop: l, first: 2}
		l.unexpectedError(p.batch, &sarama.ProduceResponseBlock{Err: sarama.ErrUnknown})
		stop, ok := errors.AsType[*cdc.StopError](l.failure.err)
		if ok == (name == "other letter") || ok && (stop.Reason != "rejected" || !strings.Contains(stop.Fix, "errors.skip") || strings.Contains(stop.Fix, "errors.rejected")) {
			t.Errorf("%s: stopped with %v: %s", name, l.failure.err, cdc.Explain(l.failure.err))
		}
	}
}

// A letter that is given up may have been published: with its sequence number the next event would be taken for a repetition.
func TestSequenceNumberOfAGivenUpLetter(t *testing.T) {
	l, p := newLoop(t)
	x := deadletter.NewIndex(deadletter.Options{}, nil, map[string]*deadletter.Entry{"id": {}}, func(string) bool { return true })
	l.letters = &deadLetters{loop: l, opts: &LetterOptions{}, index: x, installed: true}
	x.Begin("id", false)
	l.queue(&routedTo("t", 1).Messages[0], &pendingBatch{kind: republished, item: &item{Resolution: deadletter.Resolution{Work: deadletter.Work{ID: "id"}}, request: &resolveRequest{open: 2}}})
	l.turn()
	p.batch.maybeAppended = true // its answer got lost
	p.to(l, idle)
	l.failItems(p.topic, rejection{reason: "topic", err: errTopicMissing})
	if !l.producerLost || p.queue.len() > 0 {
		t.Errorf("a new producer: %t, %d messages", l.producerLost, p.queue.len())
	}
}

// The run ends when the time of earlier messages is over, although nothing else happens.
func TestFailureIsReportedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := newLoop(t)
		p.topic.partitions, l.brokers = nil, nil
		in, out := make(chan *cdc.Routed), make(chan cdc.Durable)
		l.in, l.out = in, out
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began := time.Now()
		go l.run(ctx)
		in <- routedTo("t", 1) // for a partition that nobody knows
		l.mail.post(call(func(l *loop) { l.stopAt(2, nil, errors.New("rejected")) }))
		if d := <-out; d.First != 2 || d.Err == nil {
			t.Errorf("answer %+v", d)
		}
		if took := time.Since(began); took > stopGrace {
			t.Errorf("reported after %s", took)
		}
	})
}
