package publisher

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Description is a cluster as the publisher would meet it.
type Description struct {
	Brokers []BrokerInfo
	Topics  []TopicInfo
	// ProducerID is why no producer id is to be had; nil: one is.
	ProducerID error
	// Fence is why a relay would not be fenced by its successor although it has a transactional ID; nil: it would be, as
	// far as can be told.
	Fence error
}

// BrokerInfo is a broker that the cluster announces.
type BrokerInfo struct {
	ID   int32
	Addr string
	// Err is why it cannot be reached from here; nil: it can.
	Err error
}

// Grant says whether a right is there.
type Grant uint8

// The answers.
const (
	GrantUnknown Grant = iota
	Granted
	Denied
)

// TopicInfo is a topic that was asked for.
type TopicInfo struct {
	Name string
	// Err is why nothing can be published to it; nil: no reason was found.
	Err error
	// Missing: it does not exist. Err is nil then if the publisher may create it.
	Missing    bool
	Partitions int
	// Leaderless and UnderMinISR list the partitions without a leader, and those with fewer replicas in
	// sync than min.insync.replicas.
	Leaderless, UnderMinISR []int32
	// Replicas is the smallest number of replicas that a partition has.
	Replicas int
	Write    Grant
	// Settings is why MinISR, MaxMessageBytes and CleanupPolicy are not known; nil: they are.
	Settings        error
	MinISR          int
	MaxMessageBytes int
	CleanupPolicy   string
}

var errSettings error = &cdc.FixableError{
	Cause: errors.New("the topic's settings may not be read"), Fix: "grant DESCRIBE_CONFIGS on it to have its limits checked",
}

const (
	minInsyncReplicas = "min.insync.replicas"
	cleanupPolicy     = "cleanup.policy"
)

// Describe looks at the cluster and at topics, over connections of its own; Open need not have been
// called. The error says why no broker could be asked.
func (p *Publisher) Describe(ctx context.Context, topics []string) (Description, error) {
	c := &cluster{d: p.dialer, seeds: p.opts.Brokers}
	defer c.close()
	md, err := c.metadata(ctx, topics)
	if err != nil {
		return Description{}, err
	}
	if len(topics) == 0 {
		md.Topics = nil // the question without a topic is the one for all
	}
	d := Description{Brokers: p.reach(ctx, md.Brokers)}
	transactional := p.opts.transactional(TransactionalPrefix + "check")
	d.ProducerID = c.mayIdentify(ctx, transactional)
	if transactional != "" && isRedpanda(md) {
		d.Fence = errRedpanda
	}
	settings, err := c.configs(ctx, topics, minInsyncReplicas, maxMessageBytes, cleanupPolicy)
	if err != nil {
		settings = nil
	}
	for _, tp := range md.Topics {
		d.Topics = append(d.Topics, p.describe(tp, settings[tp.Name]))
	}
	return d, nil
}

var errRedpanda error = &cdc.FixableError{
	Cause: errors.New("the brokers are Redpanda, which takes the requests for the fence and does not refuse a late batch of an earlier run"),
	Fix:   "set kafka.transactional_id: none, or use Apache Kafka 2.5 or newer",
}

// isRedpanda goes by the cluster ID, whose prefix Redpanda sets so that clients can tell
// (src/v/kafka/server/handlers/metadata.cc).
func isRedpanda(md *sarama.MetadataResponse) bool {
	return md.ClusterID != nil && strings.HasPrefix(*md.ClusterID, "redpanda.")
}

// reach connects to every broker: an address that only makes sense inside the cluster's network is the
// usual mistake.
func (p *Publisher) reach(ctx context.Context, brokers []*sarama.Broker) []BrokerInfo {
	infos := make([]BrokerInfo, len(brokers))
	var wg sync.WaitGroup
	for i, b := range brokers {
		wg.Go(func() {
			infos[i] = BrokerInfo{ID: b.ID(), Addr: b.Addr()}
			conn, err := p.dialer.open(ctx, b.Addr(), p.opts.askTimeout())
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

func (p *Publisher) describe(tp *sarama.TopicMetadata, settings map[string]string) TopicInfo {
	t := TopicInfo{Name: tp.Name, Partitions: len(tp.Partitions), Write: mayWrite(tp)}
	switch tp.Err {
	case sarama.ErrNoError, sarama.ErrLeaderNotAvailable:
	case sarama.ErrUnknownTopicOrPartition:
		t.Missing = true
		if p.opts.Create == nil {
			t.Err = absentError(tp.Name, errAbsent)
		}
		return t
	case sarama.ErrInvalidTopic:
		t.Missing, t.Err = true, absentError(tp.Name, tp.Err)
		return t
	default:
		t.Err = deniedError(tp.Name, tp.Err)
		return t
	}
	if t.Write == Denied {
		t.Err = deniedError(tp.Name, sarama.ErrTopicAuthorizationFailed)
	}
	if settings == nil {
		t.Settings = errSettings
	} else {
		t.MinISR, _ = strconv.Atoi(settings[minInsyncReplicas])
		t.MaxMessageBytes, _ = strconv.Atoi(settings[maxMessageBytes])
		t.CleanupPolicy = settings[cleanupPolicy]
	}
	t.survey(tp.Partitions)
	return t
}

func (t *TopicInfo) survey(parts []*sarama.PartitionMetadata) {
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

// mayWrite reads the rights that a broker lists (KIP-430; the bits are the codes of
// org.apache.kafka.common.acl.AclOperation).
func mayWrite(tp *sarama.TopicMetadata) Grant {
	const all, write = 2, 4
	switch ops := tp.TopicAuthorizedOperations; {
	case ops == math.MinInt32 || tp.Version < 8:
		return GrantUnknown
	case ops&(1<<write) != 0 || ops&(1<<all) != 0:
		return Granted
	default:
		return Denied
	}
}

func absentError(topic string, cause error) error {
	return cdc.Stop(cdc.ClassConfig, "unknown_topic", fmt.Errorf("publish to topic %q: %w", topic, cause),
		"create it, set topics.create, correct the route, or set errors.unknown_topic: drop")
}

func deniedError(topic string, cause error) error {
	fix := "grant the relay's principal DESCRIBE and WRITE on it"
	switch {
	case errors.Is(cause, sarama.ErrUnsupportedCompressionType):
		fix = "set kafka.compression to a codec that the brokers know"
	case errors.Is(cause, sarama.ErrUnsupportedForMessageFormat), errors.Is(cause, sarama.ErrUnsupportedVersion):
		fix = "set the topic's message.format.version to 0.11 or newer: older formats have neither headers nor idempotence"
	case errors.Is(cause, sarama.ErrClusterAuthorizationFailed):
		fix = "grant the relay's principal IDEMPOTENT_WRITE on the cluster, as brokers before 2.8 want it"
	}
	return cdc.Stop(cdc.ClassConfig, "topic_denied", fmt.Errorf("publish to topic %q: %w", topic, cause), fix)
}
