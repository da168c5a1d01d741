package kafka

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// LargestRecord is how large a record may be that the relay writes: sarama, and brokers by their socket.request.max.bytes, refuse requests
// of more than 100 MiB. A topic that [LetterTopic] describes takes letters of up to this size.
const LargestRecord = 99 << 20

// LetterTopic says how a topic of dead letters is created, for letters of up to limit bytes, or of the brokers' default if that is 0. like
// has the replication and the settings of the other topics; it may be nil.
func LetterTopic(partitions, limit int, like *TopicSpec) *TopicSpec {
	spec := PositionTopic(like)
	spec.Partitions = int32(partitions)
	delete(spec.Configs, "segment.bytes")
	maps.Copy(spec.Configs, map[string]string{
		// The payload of an event that was dropped must go from disk, also where little is written.
		"segment.ms": strconv.Itoa(24 * 3600 * 1000), "max.compaction.lag.ms": strconv.Itoa(7 * 24 * 3600 * 1000),
	})
	if limit > 0 {
		spec.Configs[maxMessageBytes] = strconv.Itoa(limit)
	}
	return spec
}

// VerifyLetterTopics returns a [cdc.StopError] if dead letters would not be safe in the topics.
func (c *Client) VerifyLetterTopics(ctx context.Context, topic, index string, partitions int) error {
	names := []string{topic, index}
	md, err := c.Metadata(ctx, names)
	if err != nil {
		return err
	}
	settings, err := c.describeConfigs(ctx, names, cleanupPolicy)
	if err != nil {
		return err
	}
	for _, tp := range md.Topics {
		info := describeTopic(tp, settings[tp.Name])
		want := partitions
		if info.Name == index {
			want = 1
		}
		if err := info.LetterProblem(want); err != nil {
			return err
		}
	}
	return nil
}

// LetterProblem is why dead letters would not be safe in the topic, which must have so many partitions.
func (t *TopicInfo) LetterProblem(partitions int) error {
	stop := func(fix, format string, args ...any) error {
		return cdc.Stop(cdc.ClassConfig, "dead_letter_topic", fmt.Errorf("topic of dead letters %q "+format, append([]any{t.Name}, args...)...), fix)
	}
	switch {
	case t.Missing:
		return stop("create it with `cdc-relay setup`", "does not exist")
	case t.Err != nil:
		return stop("grant the relay's principal DESCRIBE, DESCRIBE_CONFIGS, READ and WRITE on it", "cannot be used: %w", t.Err)
	case t.Read == Denied:
		return stop("grant the relay's principal READ on it", "may not be read, so dead letters would not be found")
	case t.Partitions != partitions:
		return stop("set dead_letter.partitions to the number that it has, or dead_letter.topic to another one once no letter is left",
			"has %d partitions, not %d", t.Partitions, partitions)
	case t.Settings != nil:
		return stop("grant the relay's principal DESCRIBE_CONFIGS on it", "may not be described, so whether it keeps dead letters is not known")
	case t.CleanupPolicy != compact:
		return stop("set its cleanup.policy to compact", "has cleanup.policy=%s, so Kafka would delete dead letters", t.CleanupPolicy)
	}
	return nil
}
