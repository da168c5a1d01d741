package fixes

import "strings"

// pending are the fixes for which the tests are being written.
func pending() []exemption {
	var all []exemption
	for line := range strings.Lines(toDo) {
		fix, move, _ := strings.Cut(strings.TrimSpace(line), " ")
		all = append(all, exemption{fix, move, "a test is to be written"})
	}
	return all
}

const toDo = `checkpoint.Check checkpoint
checkpoint.diagnose checkpoint
checkpoint.diagnose#2 checkpoint
checkpoint.hold checkpoint
checkpoint.refuse/fenced position reset
checkpoint.refuse/fenced teardown
cmd.foreignPosition kafka.position_topic
cmd.lettersFull dlq drop
cmd.lettersFull dlq retry
cmd.printSQL setup
cmd.printTeardown teardown
cmd.ready/server_not_ready setup
kafka.LetterProblem setup
kafka.LetterProblem#2 dead_letter
kafka.MissingTopicError/unknown_topic errors drop
kafka.PositionProblem position set
kafka.PositionProblem setup
kafka.PositionProblem#2 position set
kafka.PositionProblem#2 setup
kafka.PositionProblem#2 kafka.position_topic
kafka.TakeOver kafka.transactional_id
kafka.describe kafka.transactional_id
kafka.producerIDError kafka.transactional_id
kafka.producerIDError#2 kafka.transactional_id
kafka.producerIDError/fenced kafka.transactional_id
kafka.producerIDError/kafka_denied kafka.transactional_id
publisher.ownTopicError/dead_letter_topic setup
publisher.rejectedError#2 errors drop
publisher.verifySource/foreign_dead_letters replay
publisher.verifySource/foreign_dead_letters dead_letter
relay.check/fenced kafka.transactional_id
repair.Foreign position reset
repair.Foreign repair
repair.Run/repair_interrupted repair
repair.plan/gap_unknown repair
wal.Maintainable setup
wal.Maintainable partitions
wal.Verify drop
wal.Verify retention
wal.Verify#2 setup
wal.callError#2 partitions run
wal.makeSlot/slot_waits repair
wal.prepare/table_missing setup
wal.publicationProblem#2 setup
binlog.foreignCheckpoint/foreign_checkpoint repair
binlog.foreignCheckpoint/foreign_checkpoint source.mysql.id
checkpoint.before position reset
checkpoint.before position set
checkpoint.unusable repair
cmd.reset position set
cmd.reset repair
cmd.unpublished/position_unknown run --start-from
kafka.fetch kafka.transactional_id
relay.Newest/checkpoint_lost position set
relay.Newest/position_topic_lost position set
relay.foreignPosition/foreign_position kafka.position_topic`
