package publisher

import (
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

// errNoBlock is a response that lacks a partition of the request.
var errNoBlock = errors.New("the broker's response leaves the partition out")

// apply handles the end of a request.
func (e requestDone) apply(l *loop) {
	c := e.req.conn
	c.open.pop()
	l.openRequests--
	l.openBatches -= len(e.req.batches)
	switch {
	case e.err == nil:
		c.responded, c.broker.backoff = true, nil
		l.noteSuccess()
		l.passed(&c.broker.trouble)
		l.throttle(c.broker, e.res)
	case !isEncodingError(e.err):
		l.closeConn(c, e.err)
	}
	for _, b := range e.req.batches {
		l.batchDone(b, e)
	}
}

func (l *loop) batchDone(b *batch, e requestDone) {
	p := b.p
	if p.state == halting {
		p.to(l, halted)
	} else {
		p.to(l, idle)
	}
	switch {
	case p.gone:
		l.lateResponse(b, e)
	case e.err == nil:
		l.applyBlock(b, e.res.GetBlock(p.topic.name, p.id))
	case isEncodingError(e.err):
		l.rejectBatch(b, rejection{reason: "not_encodable", policy: l.opts.Rejected, err: e.err}, nil)
	default:
		b.maybeAppended, p.lastError = true, repeatedError{}
		l.metrics.errors.WithLabelValues(p.topic.name, "connection").Inc()
		l.wantMetadata(p.topic)
	}
	l.markReady(p)
}

// lateResponse handles the response for a partition whose topic was found missing meanwhile. The messages behind the
// batch are dropped in any case: if the topic exists again, later messages may already be in it.
func (l *loop) lateResponse(b *batch, e requestDone) {
	p := b.p
	if b.appended(e.res) {
		l.acknowledged(b)
	}
	l.dropPartition(p, errTopicMissing)
}

// throttle sends nothing to a broker for as long as it asks. sarama would sleep for that time with the connection
// locked, so the pause must not be shorter.
func (l *loop) throttle(b *brokerState, res *sarama.ProduceResponse) {
	if res.ThrottleTime > 0 {
		b.pausedUntil = l.now.Add(res.ThrottleTime)
	}
}

// applyBlock handles the part of a response about one batch.
func (l *loop) applyBlock(b *batch, block *sarama.ProduceResponseBlock) {
	p := b.p
	if block == nil {
		p.lastError = repeatedError{}
		l.retryLater(p, errNoBlock)
		return
	}
	r := reactionTo(classify(block.Err))
	if block.Err != sarama.ErrNoError && block.Err != sarama.ErrDuplicateSequenceNumber {
		l.metrics.errors.WithLabelValues(p.topic.name, reasonOf(block.Err)).Inc()
	}
	if block.Err == sarama.ErrRequestTimedOut || block.Err == sarama.ErrNotEnoughReplicasAfterAppend {
		b.maybeAppended = true // the leader has appended it, and all replicas may yet do so
	}
	if r.refreshMetadata {
		l.wantMetadata(p.topic)
	}
	lasted := p.lastError.lasted(block.Err, l.now)
	if r.when == atOnce || r.when == repeated && lasted >= l.opts.Timing.Patience {
		r.do(l, b, block)
	} else {
		l.retryLater(p, causeOf(block))
	}
}

// acknowledged removes a batch from the queue and resolves its messages.
func (l *loop) acknowledged(b *batch) {
	p, m := b.p, &b.p.topic.metrics
	p.end = b.offset + int64(b.n)
	l.letters.acknowledged(b)
	if oldest := p.queue.at(0); oldest.pending.committed != 0 {
		m.ack.observe(l.now.Sub(time.UnixMicro(oldest.pending.committed)), oldest.m, l.now)
	}
	pending, run := p.queue.pop().pending, 1
	for range b.n - 1 {
		if e := p.queue.pop(); e.pending == pending {
			run++
		} else {
			l.resolve(pending, run)
			pending, run = e.pending, 1
		}
	}
	l.resolve(pending, run)
	if !p.topic.own {
		m.published.Add(float64(b.n))
		m.bytes.Add(float64(b.bytes))
	}
	m.produce.Observe(l.now.Sub(b.req.sentAt).Seconds())
	p.seq = nextSequence(p.seq, b.n)
	p.bisected(b.n)
	l.clearErrors(p)
	if !p.gone {
		p.topic.lastError = repeatedError{} // whatever metadata says
	}
	p.batch = nil
	n := b.n
	l.pool.put(b)
	l.dequeued(p.topic, n)
}

// outcome classifies an error code of a produce response; see reactionTo.
type outcome uint8

const (
	// accepted: appended.
	accepted outcome = iota
	// temporary: may succeed later.
	temporary
	// moved: as temporary, and the leader may have changed.
	moved
	// absent: this broker does not know the topic.
	absent
	// denied: a grant or a setting that concerns the whole topic.
	denied
	// transactionDenied: the grant on the transactional ID.
	transactionDenied
	// badTimestamp: the broker rejects the time of this attempt.
	badTimestamp
	// tooLarge: the batch is over the topic's limit.
	tooLarge
	// invalid: the broker rejects a record of the batch.
	invalid
	// unexpected: an error code that no producer should get.
	unexpected
	// outOfSequence: the brokers have lost the producer's sequence numbers, its epoch, or its transaction.
	outOfSequence
)

// actWhen says when the relay acts on an outcome. Until then the same batch is sent again.
type actWhen uint8

const (
	never actWhen = iota
	atOnce
	// repeated: when every response has had the same error code for longer than the patience. Another error code, a
	// lost connection or a success starts the time again: a broker that has just restarted answers wrongly for a
	// moment, also after a long outage.
	repeated
)

// reaction is what an outcome leads to.
type reaction struct {
	when            actWhen
	refreshMetadata bool
	do              func(l *loop, b *batch, block *sarama.ProduceResponseBlock)
}

// reactionTo is the whole table. Metadata errors of a topic are handled in applyMetadata, with the same patience.
func reactionTo(o outcome) reaction {
	switch o {
	case accepted:
		return reaction{when: atOnce, do: func(l *loop, b *batch, block *sarama.ProduceResponseBlock) {
			b.offset = block.Offset
			l.acknowledged(b)
		}}
	case temporary:
		return reaction{when: never}
	case moved, absent: // only metadata tells that a topic is missing: it comes from other brokers too
		return reaction{when: never, refreshMetadata: true}
	case denied:
		return reaction{when: repeated, do: (*loop).topicDenied}
	case transactionDenied:
		return reaction{when: repeated, do: (*loop).transactionDenied}
	case badTimestamp:
		return reaction{when: repeated, do: (*loop).timestampRejected}
	case tooLarge:
		return reaction{when: atOnce, refreshMetadata: true, do: (*loop).batchTooLarge}
	case invalid:
		return reaction{when: atOnce, do: (*loop).recordInvalid}
	case unexpected:
		return reaction{when: repeated, do: (*loop).unexpectedError}
	default: // outOfSequence
		return reaction{when: atOnce, do: func(l *loop, _ *batch, block *sarama.ProduceResponseBlock) { l.needProducer(causeOf(block)) }}
	}
}

// repeatedError is an error code that brokers repeat. The zero value means none.
type repeatedError struct {
	code  sarama.KError
	since time.Time
}

// lasted returns how long code has been the only error code.
func (t *repeatedError) lasted(code sarama.KError, now time.Time) time.Duration {
	if t.since.IsZero() || t.code != code {
		*t = repeatedError{code, now}
	}
	return now.Sub(t.since)
}

// classify follows the table at https://kafka.apache.org/protocol#protocol_error_codes and
// org.apache.kafka.clients.producer.internals.Sender.
func classify(code sarama.KError) outcome {
	switch code {
	case sarama.ErrNoError, sarama.ErrDuplicateSequenceNumber:
		return accepted
	case sarama.ErrNotLeaderForPartition, sarama.ErrLeaderNotAvailable, sarama.ErrFencedLeaderEpoch,
		sarama.ErrUnknownLeaderEpoch, sarama.ErrReplicaNotAvailable, sarama.ErrBrokerNotAvailable,
		sarama.ErrKafkaStorageError, sarama.ErrLogDirNotFound, sarama.ErrListenerNotFound,
		sarama.ErrPreferredLeaderNotAvailable, sarama.ErrEligibleLeadersNotAvailable:
		return moved
	case sarama.ErrRequestTimedOut, sarama.ErrNotEnoughReplicas, sarama.ErrNotEnoughReplicasAfterAppend,
		sarama.ErrNetworkException, sarama.ErrOffsetsLoadInProgress, sarama.ErrConsumerCoordinatorNotAvailable,
		sarama.ErrNotCoordinatorForConsumer, sarama.ErrNotController, sarama.ErrThrottlingQuotaExceeded:
		return temporary
	case sarama.ErrUnknownTopicOrPartition:
		return absent
	case sarama.ErrTopicAuthorizationFailed, sarama.ErrClusterAuthorizationFailed,
		sarama.ErrUnsupportedCompressionType, sarama.ErrUnsupportedForMessageFormat,
		sarama.ErrInvalidRequiredAcks, sarama.ErrUnsupportedVersion:
		return denied
	case sarama.ErrTransactionalIDAuthorizationFailed:
		return transactionDenied
	case sarama.ErrMessageSizeTooLarge, sarama.ErrMessageSetSizeTooLarge:
		return tooLarge
	case sarama.ErrInvalidTimestamp:
		return badTimestamp
	case sarama.ErrInvalidRecord, sarama.ErrPolicyViolation, sarama.ErrInvalidTopic:
		return invalid
	case sarama.ErrOutOfOrderSequenceNumber, sarama.ErrUnknownProducerID, sarama.ErrInvalidProducerEpoch,
		sarama.ErrProducerFenced, sarama.ErrInvalidProducerIDMapping,
		sarama.ErrInvalidTxnState:
		return outOfSequence
	default:
		return unexpected
	}
}

// causeOf is the broker's error, with its message about the first record that it rejects.
func causeOf(block *sarama.ProduceResponseBlock) error {
	var text *string
	if len(block.RecordErrors) > 0 {
		text = block.RecordErrors[0].BatchIndexErrorMessage
	}
	if text == nil || *text == "" {
		text = block.ErrorMessage
	}
	if text == nil || *text == "" {
		return block.Err
	}
	return fmt.Errorf("%w (%s)", block.Err, *text)
}
