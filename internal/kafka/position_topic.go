package kafka

import (
	"context"
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
	md, err := c.Metadata(ctx, []string{topic})
	if err != nil {
		return err
	}
	settings, err := c.describeConfigs(ctx, []string{topic}, cleanupPolicy)
	if err != nil {
		return err
	}
	for _, tp := range md.Topics {
		info := describeTopic(tp, settings[topic])
		if err := info.PositionProblem(); err != nil {
			return err
		}
	}
	return nil
}

// PositionProblem is why positions would not be safe in the topic.
func (t *TopicInfo) PositionProblem() error {
	stop := func(fix, format string, args ...any) error {
		return cdc.Stop(cdc.ClassConfig, "position_topic", fmt.Errorf("topic of positions %q "+format, append([]any{t.Name}, args...)...), fix)
	}
	switch {
	case t.Missing:
		return stop("create it with `cdc-relay setup`; if it was deleted, find out what consumers have, and after setup "+
			"set the position with `cdc-relay position set POSITION --skip-events`", "does not exist")
	case t.Err != nil:
		return stop("grant the relay's principal DESCRIBE, DESCRIBE_CONFIGS, READ and WRITE on it", "cannot be used: %w", t.Err)
	case t.Read == Denied:
		return stop("grant the relay's principal READ on it", "may not be read, so the position would not be found")
	case t.Partitions != 1:
		return stop("note the position that `cdc-relay position show` prints, set kafka.position_topic to another topic, create it with `cdc-relay setup`, "+
			"and set the position with `cdc-relay position set POSITION --skip-events`", "has %d partitions, not one", t.Partitions)
	case t.Settings != nil:
		return stop("grant the relay's principal DESCRIBE_CONFIGS on it", "may not be described, so whether it keeps the position is not known")
	case t.CleanupPolicy != compact:
		return stop("set its cleanup.policy to compact", "has cleanup.policy=%s, so Kafka would delete the position", t.CleanupPolicy)
	}
	return nil
}
