package publisher

import (
	"context"
	"fmt"
	"slices"
)

// CreateTopics makes those of the topics that do not exist, over a connection of its own, and returns
// their names. Open need not have been called; [Options.Create] must be set. It does not wait until the
// new topics have leaders.
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
	return created, nil
}
