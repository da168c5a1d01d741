package kafka

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Description is the state of a cluster and of topics.
type Description struct {
	Brokers []BrokerInfo
	Topics  []TopicInfo
	// ProducerID is why no producer ID can be had; nil: one can.
	ProducerID error
	// Fence is why a relay would not be fenced by its successor although it has a transactional ID; nil: no reason is
	// known.
	Fence error
}

// BrokerInfo is a broker that the cluster announces.
type BrokerInfo struct {
	ID   int32
	Addr string
	// Err is why this machine cannot connect to it; nil: it can.
	Err error
}

// Grant says whether an operation is authorized.
type Grant uint8

// The values of a Grant.
const (
	GrantUnknown Grant = iota
	Granted
	Denied
)

// TopicInfo describes a topic.
type TopicInfo struct {
	Name string
	// Err is why nothing can be published to it; nil: no reason was found.
	Err error
	// Missing: it does not exist, and can be created. Err is set too.
	Missing    bool
	Partitions int
	// Leaderless and UnderMinISR list the partitions without a leader, and those with fewer in-sync replicas than
	// min.insync.replicas.
	Leaderless, UnderMinISR []int32
	// Replicas is the smallest number of replicas that a partition has.
	Replicas    int
	Write, Read Grant
	// Settings is why MinISR, MaxMessageBytes and CleanupPolicy are not known; nil: they are.
	Settings        error
	MinISR          int
	MaxMessageBytes int
	CleanupPolicy   string
}

var errSettings = cdc.Fixable("grant DESCRIBE_CONFIGS on it to have its limits checked", "the topic's settings may not be read")

// Describe returns the cluster and topics as a relay with the transactional ID would find them; "" is none. It fences no
// other relay. The error says why no broker answered.
func (c *Client) Describe(ctx context.Context, topics []string, transactionalID string) (Description, error) {
	defer c.Close()
	md, err := c.Metadata(ctx, topics)
	if err != nil {
		return Description{}, err
	}
	if len(topics) == 0 {
		md.Topics = nil // a request without topics returns all of them
	}
	d := Description{Brokers: c.reach(ctx, md.Brokers)}
	d.ProducerID = c.checkProducerID(ctx, transactionalID)
	if transactionalID != "" && isRedpanda(md) {
		d.Fence = errRedpanda
	}
	settings, failed := c.describeConfigs(ctx, topics, minInsyncReplicas, maxMessageBytes, cleanupPolicy)
	for _, tp := range md.Topics {
		d.Topics = append(d.Topics, describeTopic(tp, settings[tp.Name], failed))
	}
	return d, nil
}

var errRedpanda = cdc.Fixable("use Apache Kafka 2.5 or newer, or "+withoutFence,
	"the brokers are Redpanda, which takes the requests for fencing and does not refuse a late batch of an earlier run")

// isRedpanda looks at the cluster ID: Redpanda prefixes it so that clients can recognize it
// (src/v/kafka/server/handlers/metadata.cc).
func isRedpanda(md *sarama.MetadataResponse) bool {
	return md.ClusterID != nil && strings.HasPrefix(*md.ClusterID, "redpanda.")
}

// reach connects to every broker: an address that is valid only inside the cluster's network is the usual mistake.
func (c *Client) reach(ctx context.Context, brokers []*sarama.Broker) []BrokerInfo {
	infos := make([]BrokerInfo, len(brokers))
	var wg sync.WaitGroup
	for i, b := range brokers {
		wg.Go(func() {
			infos[i] = BrokerInfo{ID: b.ID(), Addr: b.Addr()}
			conn, err := c.open(ctx, b.Addr())
			if err != nil {
				infos[i].Err = fmt.Errorf("broker %d announces an address that does not answer (advertised.listeners): %w", b.ID(), err)
				return
			}
			_ = conn.Close()
		})
	}
	wg.Wait()
	return infos
}

// describeTopic gets no settings if they may not be read, or because of failed.
func describeTopic(tp *sarama.TopicMetadata, settings map[string]string, failed error) TopicInfo {
	t := TopicInfo{Name: tp.Name, Partitions: len(tp.Partitions), Write: grant(tp, opWrite), Read: grant(tp, opRead)}
	switch tp.Err {
	case sarama.ErrNoError, sarama.ErrLeaderNotAvailable:
	case sarama.ErrUnknownTopicOrPartition:
		t.Missing, t.Err = true, MissingTopicError(tp.Name, ErrTopicMissing)
		return t
	case sarama.ErrInvalidTopic:
		t.Err = MissingTopicError(tp.Name, tp.Err)
		return t
	default:
		t.Err = DeniedTopicError(tp.Name, tp.Err)
		return t
	}
	if t.Write == Denied {
		t.Err = DeniedTopicError(tp.Name, sarama.ErrTopicAuthorizationFailed)
	}
	if settings == nil {
		t.Settings = cmp.Or(failed, errSettings)
	} else {
		t.MinISR, _ = strconv.Atoi(settings[minInsyncReplicas])
		t.MaxMessageBytes, _ = strconv.Atoi(settings[maxMessageBytes])
		t.CleanupPolicy = settings[cleanupPolicy]
	}
	t.addPartitions(tp.Partitions)
	return t
}

func (t *TopicInfo) addPartitions(parts []*sarama.PartitionMetadata) {
	for _, part := range parts {
		if part.Leader < 0 {
			t.Leaderless = append(t.Leaderless, part.ID)
		} else if len(part.Isr) < t.MinISR {
			t.UnderMinISR = append(t.UnderMinISR, part.ID)
		}
		if t.Replicas == 0 || len(part.Replicas) < t.Replicas {
			t.Replicas = len(part.Replicas)
		}
	}
}

// Codes of org.apache.kafka.common.acl.AclOperation.
const opAll, opRead, opWrite = 2, 3, 4

// grant looks for op in the operations that a broker lists as authorized, in bits (KIP-430).
func grant(tp *sarama.TopicMetadata, op int) Grant {
	switch ops := tp.TopicAuthorizedOperations; {
	case ops == math.MinInt32 || tp.Version < 8:
		return GrantUnknown
	case ops&(1<<op) != 0 || ops&(1<<opAll) != 0:
		return Granted
	default:
		return Denied
	}
}
