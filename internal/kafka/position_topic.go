package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// PositionTopic says how a topic of positions is created. like has the replication and the settings of the other topics;
// it may be nil.
func PositionTopic(like *TopicSpec) *TopicSpec {
	spec := &TopicSpec{Partitions: 1, ReplicationFactor: -1, Configs: map[string]string{
		cleanupPolicy: compact, "unclean.leader.election.enable": "false",
		// Only closed segments are compacted, and a relay writes a small record many times a second.
		"segment.bytes": strconv.Itoa(16 << 20), "min.cleanable.dirty.ratio": "0.1",
	}}
	if like == nil {
		return spec
	}
	spec.ReplicationFactor = like.ReplicationFactor
	if n, ok := like.Configs[minInsyncReplicas]; ok {
		maps.Copy(spec.Configs, map[string]string{minInsyncReplicas: n})
	}
	return spec
}

const compact = "compact"

// VerifyPositionTopic returns a [cdc.StopError] if positions would not be safe in the topic.
func (c *Client) VerifyPositionTopic(ctx context.Context, topic string) error {
	return c.verifyOwn(ctx, (*TopicInfo).PositionProblem, topic)
}

// verifyOwn returns the first problem of topics that the relay keeps something in.
func (c *Client) verifyOwn(ctx context.Context, problem func(*TopicInfo) error, topics ...string) error {
	md, err := c.Metadata(ctx, topics)
	if err != nil {
		return err
	}
	settings, failed := c.describeConfigs(ctx, topics, cleanupPolicy)
	for _, tp := range md.Topics {
		info := describeTopic(tp, settings[tp.Name], failed)
		if err := problem(&info); err != nil {
			return err
		}
	}
	return nil
}

// PositionProblem is why positions would not be safe in the topic.
func (t *TopicInfo) PositionProblem() error {
	return t.unsafe(keeping{
		reason: "position_topic", topic: "topic of positions", what: "the position", partitions: 1,
		create: "create it with `cdc-relay setup`; if it was deleted, find out what consumers have, and after setup " +
			"set the position with `cdc-relay position set POSITION --skip-events`",
		replace: "note the position that `cdc-relay position show` prints, set kafka.position_topic to another topic, create it with `cdc-relay setup`, " +
			"and set the position with `cdc-relay position set POSITION --skip-events`",
	})
}

// keeping is what the relay keeps in a topic, and the fixes for one that is missing or has another number of partitions.
type keeping struct {
	reason, topic, what string
	partitions          int
	create, replace     string
}

// unsafe is why that would not be safe in the topic.
func (t *TopicInfo) unsafe(k keeping) error {
	stop := func(fix, format string, args ...any) error {
		return cdc.Stop(cdc.ClassConfig, k.reason, fmt.Errorf(k.topic+" %q "+format, append([]any{t.Name}, args...)...), fix)
	}
	switch {
	case t.Missing:
		return stop(k.create, "does not exist")
	case t.Err != nil:
		return stop("grant the relay's principal DESCRIBE, DESCRIBE_CONFIGS, READ and WRITE on it", "cannot be used: %w", t.Err)
	case t.Read == Denied:
		return stop("grant the relay's principal READ on it", "may not be read, so %s would not be found", k.what)
	case t.Partitions != k.partitions:
		return stop(k.replace, "has %d partitions, not %d", t.Partitions, k.partitions)
	case t.Settings != nil && !errors.Is(t.Settings, errSettings):
		return fmt.Errorf(k.topic+" %q: %w", t.Name, t.Settings)
	case t.Settings != nil:
		return stop("grant the relay's principal DESCRIBE_CONFIGS on it", "may not be described, so whether it keeps %s is not known", k.what)
	case t.CleanupPolicy != compact:
		return stop("set its cleanup.policy to compact", "has cleanup.policy=%s, so Kafka would delete %s", t.CleanupPolicy, k.what)
	}
	return nil
}
