package publisher

import (
	"time"

	"github.com/IBM/sarama"
)

// verdict sorts a broker's answer about a batch; see responseTo for what each leads to.
type verdict uint8

const (
	// accepted: in the partition.
	accepted verdict = iota
	// again: may pass by itself.
	again
	// moved: as again, and the leader may be another one.
	moved
	// absent: this broker does not know the topic.
	absent
	// denied: a right or a setting that concerns the whole topic.
	denied
	// misdated: the broker refuses the time that the batch carries, which is that of this attempt.
	misdated
	// tooLarge: the batch is over the topic's limit.
	tooLarge
	// refused: the broker refuses a record of the batch.
	refused
	// obscure: nothing that a producer should see.
	obscure
	// sequence: the brokers do not know the producer's sequence numbers any more.
	sequence
)

// belief says when an answer is acted upon. Until then the same batch is sent again.
type belief uint8

const (
	never belief = iota
	atOnce
	// repeated: when every answer has been the same one for longer than [Options.Patience]. Another error code in
	// between, a lost connection or a success begins the time anew: a broker that has just come back answers wrongly
	// for a moment, and that moment may follow an outage of any length.
	repeated
)

// response is what an answer leads to.
type response struct {
	believed belief
	lookUp   bool // the topic's metadata is read again
	then     func(l *loop, b *batch, block *sarama.ProduceResponseBlock)
}

// responseTo is the whole table. What metadata says of a topic is judged in learn, with the same patience.
func responseTo(v verdict) response {
	switch v {
	case accepted:
		return response{believed: atOnce, then: func(l *loop, b *batch, _ *sarama.ProduceResponseBlock) { l.accepted(b) }}
	case again:
		return response{believed: never}
	case moved, absent: // metadata alone tells that a topic is absent: it comes from other brokers too
		return response{believed: never, lookUp: true}
	case denied:
		return response{believed: repeated, then: (*loop).unusable}
	case misdated:
		return response{believed: repeated, then: (*loop).unusable}
	case tooLarge:
		return response{believed: atOnce, lookUp: true, then: (*loop).oversized}
	case refused:
		return response{believed: atOnce, then: (*loop).rejected}
	case obscure:
		return response{believed: repeated, then: (*loop).rejected}
	default: // sequence
		return response{believed: atOnce, then: func(l *loop, _ *batch, block *sarama.ProduceResponseBlock) { l.renew(causeOf(block)) }}
	}
}

// trouble is an error that brokers repeat. The zero value means none.
type trouble struct {
	code  sarama.KError
	since time.Time
}

// lasts returns how long code has been the only answer.
func (t *trouble) lasts(code sarama.KError, now time.Time) time.Duration {
	if t.since.IsZero() || t.code != code {
		*t = trouble{code, now}
	}
	return now.Sub(t.since)
}

// judge follows the table at https://kafka.apache.org/protocol#protocol_error_codes and what
// org.apache.kafka.clients.producer.internals.Sender makes of it.
func judge(code sarama.KError) verdict {
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
		return again
	case sarama.ErrUnknownTopicOrPartition:
		return absent
	case sarama.ErrTopicAuthorizationFailed, sarama.ErrClusterAuthorizationFailed,
		sarama.ErrUnsupportedCompressionType, sarama.ErrUnsupportedForMessageFormat,
		sarama.ErrInvalidRequiredAcks, sarama.ErrUnsupportedVersion:
		return denied
	case sarama.ErrMessageSizeTooLarge, sarama.ErrMessageSetSizeTooLarge:
		return tooLarge
	case sarama.ErrInvalidTimestamp:
		return misdated
	case sarama.ErrInvalidRecord, sarama.ErrPolicyViolation, sarama.ErrInvalidTopic:
		return refused
	case sarama.ErrOutOfOrderSequenceNumber, sarama.ErrUnknownProducerID, sarama.ErrInvalidProducerEpoch,
		sarama.ErrProducerFenced, sarama.ErrInvalidProducerIDMapping:
		return sequence
	default:
		return obscure
	}
}

// reasonOf is the value of the metrics' reason label.
func reasonOf(code sarama.KError) string {
	names := map[sarama.KError]string{
		sarama.ErrUnknownTopicOrPartition:      "unknown_topic_or_partition",
		sarama.ErrLeaderNotAvailable:           "leader_not_available",
		sarama.ErrNotLeaderForPartition:        "not_leader_or_follower",
		sarama.ErrRequestTimedOut:              "request_timed_out",
		sarama.ErrMessageSizeTooLarge:          "message_too_large",
		sarama.ErrMessageSetSizeTooLarge:       "record_list_too_large",
		sarama.ErrNotEnoughReplicas:            "not_enough_replicas",
		sarama.ErrNotEnoughReplicasAfterAppend: "not_enough_replicas_after_append",
		sarama.ErrTopicAuthorizationFailed:     "topic_authorization_failed",
		sarama.ErrClusterAuthorizationFailed:   "cluster_authorization_failed",
		sarama.ErrOutOfOrderSequenceNumber:     "out_of_order_sequence_number",
		sarama.ErrUnknownProducerID:            "unknown_producer_id",
		sarama.ErrInvalidProducerEpoch:         "invalid_producer_epoch",
		sarama.ErrInvalidTimestamp:             "invalid_timestamp",
		sarama.ErrInvalidRecord:                "invalid_record",
		sarama.ErrInvalidMessage:               "corrupt_message",
		sarama.ErrKafkaStorageError:            "kafka_storage_error",
		sarama.ErrPolicyViolation:              "policy_violation",
		sarama.ErrUnknown:                      "unknown_server_error",
	}
	if name, ok := names[code]; ok {
		return name
	}
	return "other"
}
