package kafka

import (
	"context"
	"maps"
	"strconv"
)

// LargestRecord is how large a record may be that the relay writes: sarama, and brokers by their socket.request.max.bytes, refuse requests
// of more than 100 MiB. A topic that [LetterTopic] describes takes letters of up to this size.
const LargestRecord = 99 << 20

// CreateLetterTopic is the fix for a topic of dead letters that does not exist, or no longer.
const CreateLetterTopic = "create it with `cdc-relay setup`; if it was deleted, its dead letters are lost with it: publish their events with " +
	"`cdc-relay replay --since TIME`"

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
	return c.verifyOwn(ctx, func(t *TopicInfo) error {
		if t.Name == index {
			return t.LetterProblem(1)
		}
		return t.LetterProblem(partitions)
	}, topic, index)
}

// LetterProblem is why dead letters would not be safe in the topic, which must have so many partitions.
func (t *TopicInfo) LetterProblem(partitions int) error {
	return t.unsafe(keeping{
		reason: "dead_letter_topic", topic: "topic of dead letters", what: "dead letters", partitions: partitions,
		create:  CreateLetterTopic,
		replace: "set dead_letter.partitions to the number that it has, or dead_letter.topic to another one once no letter is left",
	})
}
