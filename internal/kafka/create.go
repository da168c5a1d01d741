package kafka

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// TopicSpec says how topics are created. -1 is the brokers' default.
type TopicSpec struct {
	Partitions        int32
	ReplicationFactor int16
	// Configs are topic settings: "cleanup.policy", "retention.ms".
	Configs map[string]string
}

// EnsureTopics creates those of the topics that do not exist, waits until they have leaders, and returns their names.
func (c *Client) EnsureTopics(ctx context.Context, topics []string, spec *TopicSpec) (created []string, err error) {
	defer c.Close()
	md, err := c.Metadata(ctx, topics)
	if err != nil {
		return nil, err
	}
	outcomes := c.CreateMissing(ctx, md, spec)
	for name, err := range outcomes {
		if err != nil && !errors.Is(err, sarama.ErrTopicAlreadyExists) {
			return created, CreateError(name, err)
		}
	}
	for _, name := range topics {
		if err, missing := outcomes[name]; missing && err == nil && !slices.Contains(created, name) {
			created = append(created, name)
		}
	}
	return created, c.awaitLeaders(ctx, slices.Collect(maps.Keys(outcomes)))
}

// SettingRefused reports whether brokers do not create a topic because of one of its settings.
func SettingRefused(err error) bool {
	return errors.Is(err, sarama.ErrPolicyViolation) || errors.Is(err, sarama.ErrInvalidConfig)
}

// CreateError is the error for a topic that cannot be created.
func CreateError(topic string, err error) error {
	return cdc.Fixable("correct topics.create (replication_factor must not be over the number of brokers), grant the relay's principal CREATE, "+
		"or create the topic yourself", "create topic %q: %w", topic, err)
}

// ValidateTopics returns for each topic why it cannot be created, or nil. It creates none.
func (c *Client) ValidateTopics(ctx context.Context, topics []string, spec *TopicSpec) map[string]error {
	defer c.Close()
	outcomes := c.createTopics(ctx, topics, spec, true)
	maps.DeleteFunc(outcomes, func(_ string, err error) bool { return errors.Is(err, sarama.ErrTopicAlreadyExists) })
	return outcomes
}

// CreateMissing creates the topics that do not exist according to md, except some, and returns the outcome for each of them:
// [sarama.ErrTopicAlreadyExists] for one that md does not have yet. Their leaders are known a little later.
func (c *Client) CreateMissing(ctx context.Context, md *sarama.MetadataResponse, spec *TopicSpec, except ...string) map[string]error {
	var missing []string
	for _, tp := range md.Topics {
		if tp.Err == sarama.ErrUnknownTopicOrPartition && !slices.Contains(except, tp.Name) {
			missing = append(missing, tp.Name)
		}
	}
	return c.createTopics(ctx, missing, spec, false)
}

// leaderPause is the pause between metadata requests for the leaders of new topics.
const leaderPause = 50 * time.Millisecond

// awaitLeaders waits until every partition of the topics has a leader.
func (c *Client) awaitLeaders(ctx context.Context, topics []string) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.RequestTimeout)
	defer cancel()
	for len(topics) > 0 {
		md, err := c.Metadata(ctx, topics)
		if err != nil {
			return err
		}
		topics = slices.DeleteFunc(slices.Clone(topics), func(name string) bool { return hasLeaders(md, name) })
		if len(topics) == 0 {
			break
		}
		if cdc.Sleep(ctx, leaderPause) != nil {
			return cdc.Fixable("see whether every broker is up", "topic %q was created and has no leader after %s", topics[0], c.opts.RequestTimeout)
		}
	}
	return nil
}

func hasLeaders(md *sarama.MetadataResponse, topic string) bool {
	for _, tp := range md.Topics {
		if tp.Name != topic {
			continue
		}
		leaderless := func(p *sarama.PartitionMetadata) bool { return p.Leader < 0 }
		return tp.Err == sarama.ErrNoError && len(tp.Partitions) > 0 && !slices.ContainsFunc(tp.Partitions, leaderless)
	}
	return false
}

// maxCreated bounds the metadata records that one request creates: controllers reject requests that need more than
// 10,000 (org.apache.kafka.controller.QuorumController.MAX_RECORDS_PER_USER_OP), and a request has to end in time.
const maxCreated = 2000

// createTopics creates topics, many in one request, and returns the outcome for each: nil also for one that exists.
func (c *Client) createTopics(ctx context.Context, topics []string, spec *TopicSpec, validateOnly bool) map[string]error {
	outcomes := make(map[string]error, len(topics))
	for some := range slices.Chunk(topics, max(1, maxCreated/spec.records())) {
		res, err := c.submitCreate(ctx, c.createRequest(some, spec, validateOnly))
		for _, name := range some {
			outcomes[name] = err
			if err == nil {
				outcomes[name] = creationError(res, name)
			}
		}
	}
	return outcomes
}

// records is how many metadata records a topic takes.
func (s *TopicSpec) records() int {
	const many = 50 // the brokers' own number of partitions is not known
	partitions := int(s.Partitions)
	if partitions < 0 {
		partitions = many
	}
	return 1 + partitions + len(s.Configs)
}

func (c *Client) createRequest(topics []string, spec *TopicSpec, validateOnly bool) *sarama.CreateTopicsRequest {
	details := make(map[string]*sarama.TopicDetail, len(topics))
	for _, name := range topics {
		detail := &sarama.TopicDetail{
			NumPartitions: spec.Partitions, ReplicationFactor: spec.ReplicationFactor, ConfigEntries: map[string]*string{},
		}
		for setting, value := range spec.Configs {
			detail.ConfigEntries[setting] = &value
		}
		details[name] = detail
	}
	return sarama.NewCreateTopicsRequest(sarama.MaxVersion, details, c.opts.metadataTimeout()*4/5, validateOnly)
}

// errNotController: where not every broker creates topics (ZooKeeper), the next one is asked until one does.
var errNotController = errors.New("the broker is not the controller")

func (c *Client) submitCreate(ctx context.Context, req *sarama.CreateTopicsRequest) (res *sarama.CreateTopicsResponse, err error) {
	err = c.request(ctx, func(b *sarama.Broker) error {
		if res, err = b.CreateTopics(req); err != nil {
			return err // request wraps it
		}
		for _, result := range res.TopicErrors {
			if result.Err == sarama.ErrNotController {
				return errNotController
			}
		}
		return nil
	})
	return res, err
}

// creationError is the outcome for one topic.
func creationError(res *sarama.CreateTopicsResponse, topic string) error {
	result := res.TopicErrors[topic]
	if result == nil || result.Err == sarama.ErrNoError {
		return nil
	}
	return result
}
