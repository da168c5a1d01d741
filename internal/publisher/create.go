package publisher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// CreateTopics makes those of the topics that do not exist, over a connection of its own, waits until
// they have leaders, and returns their names. Open need not have been called; [Options.Create] must be
// set.
func (p *Publisher) CreateTopics(ctx context.Context, topics []string) (created []string, err error) {
	c := &cluster{d: p.dialer, seeds: p.opts.Brokers}
	defer c.close()
	md, err := c.metadata(ctx, topics)
	if err != nil {
		return nil, err
	}
	job := learnJob{create: p.opts.Create}
	made := job.createMissing(ctx, c, md)
	for _, name := range topics {
		err, missing := made[name]
		switch {
		case err != nil:
			return created, &cdc.FixableError{
				Cause: fmt.Errorf("create topic %q: %w", name, err),
				Fix:   "grant the relay's principal CREATE, correct topics.create, or create the topic yourself",
			}
		case missing && !slices.Contains(created, name):
			created = append(created, name)
		}
	}
	return created, c.awaitLeaders(ctx, created, p.opts.RequestTimeout)
}

// leaderPause is the pause between questions for the leaders of new topics.
const leaderPause = 50 * time.Millisecond

// awaitLeaders waits until every partition of the topics has a leader.
func (c *cluster) awaitLeaders(ctx context.Context, topics []string, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for len(topics) > 0 {
		md, err := c.metadata(ctx, topics)
		if err != nil {
			return err
		}
		topics = slices.DeleteFunc(slices.Clone(topics), func(name string) bool { return hasLeaders(md, name) })
		if len(topics) == 0 {
			break
		}
		select {
		case <-time.After(leaderPause):
		case <-ctx.Done():
			return &cdc.FixableError{
				Cause: fmt.Errorf("topic %q was created and has no leader after %s", topics[0], patience),
				Fix:   "see whether every broker is up",
			}
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

// maxCreated bounds what one request creates, in metadata records: controllers refuse one that needs more than 10,000
// (org.apache.kafka.controller.QuorumController.MAX_RECORDS_PER_USER_OP), and a request must be done in time.
const maxCreated = 2000

// create makes topics, many in one request, and returns the outcome for each: nil also where it is there already.
func (c *cluster) create(ctx context.Context, topics []string, spec *TopicSpec) map[string]error {
	outcomes := make(map[string]error, len(topics))
	for some := range slices.Chunk(topics, max(1, maxCreated/spec.records())) {
		res, err := c.submit(ctx, c.createRequest(some, spec))
		for _, name := range some {
			outcomes[name] = err
			if err == nil {
				outcomes[name] = created(res, name)
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

func (c *cluster) createRequest(topics []string, spec *TopicSpec) *sarama.CreateTopicsRequest {
	details := make(map[string]*sarama.TopicDetail, len(topics))
	for _, name := range topics {
		detail := &sarama.TopicDetail{
			NumPartitions: spec.Partitions, ReplicationFactor: spec.ReplicationFactor, ConfigEntries: map[string]*string{},
		}
		for name, value := range spec.Configs {
			detail.ConfigEntries[name] = &value
		}
		details[name] = detail
	}
	return sarama.NewCreateTopicsRequest(sarama.MaxVersion, details, c.d.opts.askTimeout()*4/5, false)
}

// submit asks any broker, and the controller where only that one creates topics.
func (c *cluster) submit(ctx context.Context, req *sarama.CreateTopicsRequest) (*sarama.CreateTopicsResponse, error) {
	var res *sarama.CreateTopicsResponse
	submit := func(b *sarama.Broker) error {
		var err error
		if res, err = b.CreateTopics(req); err != nil {
			return err // ask wraps it
		}
		for _, said := range res.TopicErrors {
			if said.Err == sarama.ErrNotController {
				return said
			}
		}
		return nil
	}
	err := c.ask(ctx, submit)
	if !errors.Is(err, sarama.ErrNotController) || c.controller == "" {
		return res, err
	}
	b, err := c.open(ctx, c.controller)
	if err != nil {
		return nil, err
	}
	c.close()
	c.b = b
	err = c.ask(ctx, submit)
	return res, err
}

// created is the outcome for one topic.
func created(res *sarama.CreateTopicsResponse, topic string) error {
	said := res.TopicErrors[topic]
	if said == nil || said.Err == sarama.ErrNoError || said.Err == sarama.ErrTopicAlreadyExists {
		return nil
	}
	return said
}
