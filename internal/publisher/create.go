package publisher

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/IBM/sarama"
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
			return created, fmt.Errorf("create topic %q: %w: grant the relay's principal CREATE, correct topics.create, or make the topic yourself", name, err)
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
			return fmt.Errorf("topic %q was created and has no leader after %s: see whether every broker is up", topics[0], patience)
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
