package publisher

import (
	"github.com/IBM/sarama"
)

// verdict sorts a broker's answer about a batch.
type verdict uint8

const (
	// accepted: in the log.
	accepted verdict = iota
	// again: may pass by itself; the same batch is sent again, for as long as it takes.
	again
	// moved: as again, and the leader must be asked for.
	moved
	// absent: the topic is not there; believed after some patience.
	absent
	// denied: a right or a setting that concerns the whole topic; believed after some patience.
	denied
	// tooLarge: the batch is over the topic's limit.
	tooLarge
	// refused: a record of the batch cannot be in the log.
	refused
	// obscure: nothing that a producer should see. Repeated for some time, then taken for refused.
	obscure
	// sequence: the brokers do not know our sequence numbers any more.
	sequence
)

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
	case sarama.ErrInvalidRecord, sarama.ErrInvalidTimestamp, sarama.ErrPolicyViolation, sarama.ErrInvalidTopic:
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
