package publisher

import (
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// outcome classifies an error code of a produce response; see reactionTo.
type outcome uint8

const (
	accepted          outcome = iota // appended
	temporary                        // may succeed later
	moved                            // as temporary, and the leader may have changed
	absent                           // this broker does not know the topic
	denied                           // a grant or a setting that concerns the whole topic
	transactionDenied                // the grant on the transactional ID
	badTimestamp                     // the broker rejects the time of this attempt
	tooLarge                         // the batch is over the topic's limit
	invalid                          // the broker rejects a record of the batch
	unexpected                       // an error code that no producer should get
	outOfSequence                    // the brokers have lost the producer's sequence numbers, its epoch, or its transaction
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
	case moved, absent: // only metadata tells that a topic is missing: other brokers are asked for it, too
		return reaction{when: never, refreshMetadata: true}
	case denied:
		return reaction{when: repeated, do: func(l *loop, b *batch, block *sarama.ProduceResponseBlock) {
			l.refuseRecords(b.p.topic, kafka.DeniedTopicError(b.p.topic.name, causeOf(block)))
		}}
	case transactionDenied:
		return reaction{when: repeated, do: func(l *loop, _ *batch, block *sarama.ProduceResponseBlock) {
			// What the transaction has published cannot be committed, and no event is the reason.
			l.stopAt(0, nil, l.opts.Kafka.TransactionDenied(l.transactionalID, causeOf(block)))
		}}
	case badTimestamp:
		return reaction{when: repeated, do: func(l *loop, b *batch, block *sarama.ProduceResponseBlock) {
			l.refuseRecords(b.p.topic, clockError(b.p.topic.name, b.req.sentAt, causeOf(block)))
		}}
	case tooLarge:
		return reaction{when: atOnce, refreshMetadata: true, do: func(l *loop, b *batch, block *sarama.ProduceResponseBlock) {
			b.p.topic.limitStale = true
			l.rejectBatch(b, rejection{reason: "too_large", policy: l.opts.TooLarge, err: causeOf(block)}, nil)
		}}
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
	again bool // of metadata: another broker was asked since
}

// lasted returns how long code has been the only error code.
func (t *repeatedError) lasted(code sarama.KError, now time.Time) time.Duration {
	if t.since.IsZero() || t.code != code {
		*t = repeatedError{code: code, since: now}
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
