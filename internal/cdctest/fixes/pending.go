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

const toDo = `cmd.lettersFull dlq drop
cmd.lettersFull dlq retry
publisher.ownTopicError/dead_letter_topic setup
publisher.rejectedError#2 errors drop
publisher.verifySource/foreign_dead_letters replay
publisher.verifySource/foreign_dead_letters dead_letter
repair.Foreign position reset
repair.Foreign repair
repair.Run/repair_interrupted repair
repair.plan/gap_unknown repair
binlog.foreignCheckpoint/foreign_checkpoint repair
binlog.foreignCheckpoint/foreign_checkpoint source.mysql.id`
