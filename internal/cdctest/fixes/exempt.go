package fixes

// exemption says why no test follows a move of a fix.
type exemption struct {
	// fix is its name, or the name of its package and "." for all of the package; move "*" stands for all moves.
	fix, move, why string
}

func exemptions() []exemption {
	const property = "sets a property of the slot, and moves nothing"
	const looks = "names the setting that tells how long events are kept, to look at it"
	const fence = "goes without the fence: no position moves, and docs/guarantees.md says what a late request may do then"
	const location = "nothing is stored yet in a location that cannot be used; another location is followed as checkpoint.unusable"
	const transactional = "changes no position; a start fences also the IDs that the stored positions name, which TestAnotherTransactionalID shows"
	return []exemption{
		{"events.nothing", "partitions", looks},
		{"events.nothing#2", "partitions", looks},
		{"publisher.rejectedError", "setup", "limits of a topic are set; the command is named for its values, and changes nothing of a topic that exists"},
		{"publisher.verifySource/foreign_dead_letters", "dead_letter", "the start compares the setting with the topic, and has written no letter before"},
		{"publisher.verifySource/foreign_dead_letters", "replay", "moves no position, and a person chooses what it publishes; followed as deadletter.recordDeleted"},
		{"kafka.TakeOver", "kafka.transactional_id", fence},
		{"kafka.describe", "kafka.transactional_id", fence},
		{"kafka.producerIDError", "kafka.transactional_id", fence},
		{"kafka.producerIDError#2", "kafka.transactional_id", fence},
		{"kafka.producerIDError/kafka_denied", "kafka.transactional_id", fence},
		{"kafka.producerIDError/fenced", "kafka.transactional_id", transactional},
		{"relay.check/fenced", "kafka.transactional_id", transactional},
		{"kafka.fetch", "kafka.transactional_id", "says whose transaction it is, and to wait for its end"},
		{"kafka.LetterProblem", "setup", "creates a topic that does not exist; letters of one that was deleted are gone before"},
		{"kafka.LetterProblem#2", "dead_letter", "the start compares the setting with the topic, and has written no letter before"},
		{"deadletter.Whole/dead_letter_without_payload", "dlq retry", "by an earlier version, which no test has"},
		{"deadletter.Whole/dead_letter_without_payload", "dlq drop", "by an earlier version, which no test has"},
		{"checkpoint.Check", "checkpoint", "the first start with a checkpoint finds none, and goes on from the slot as before"},
		{"checkpoint.diagnose", "checkpoint", location},
		{"checkpoint.diagnose#2", "checkpoint", location},
		{"checkpoint.hold", "checkpoint", "the file stays the other relay's; a location of its own is followed as checkpoint.refuse/foreign_checkpoint"},
		{"checkpoint.refuse/fenced", "position reset", "names what was done while the relay ran"},
		{"checkpoint.refuse/fenced", "teardown", "names what was done while the relay ran"},
		{"position.Foreign", "kafka.position_topic", "nothing was changed; the same setting is followed as position.foreignPosition"},
		{"repair.plan/position_intact", "repair", "the position is intact; TestFixesOfPublications runs the same command so"},
		{"wal.Finish", "slot", property},
		{"postgres.failover", "slot", property},
		{"postgres.ReplicationError/no_slot_free", "slot", "which slot is unused only a person knows; it is not the relay's, which has none yet"},
		{"binlog.dumpError/binlog_gap#2", "repair", "a server says so only if it purges between the look at what it has and the request; the same command is followed as binlog.resolve/binlog_purged"},
		{"binlog.take/gtid_mode", "binlog", "servers refuse to send such an event, and then it is binlog.dumpError/gtid_mode"},
		{"mysql.tableMissing", "setup", "an administrator creates the database first; then it is mysql.tableMissing/table_missing"},
		{"mysql.Maintainable", "partitions run", "the same command with the owner's connection string is followed as mysql.changeError; here the server is another one"},
		{"repair.Run/repair_interrupted", "repair", "a repair moves the position at its end only; the same command is followed as cmd.reportRepair, after an interruption at each moment"},
	}
}

// exempt says why a move needs no test; "" if it needs one.
func (f *Fix) exempt(move string) string {
	for _, e := range exemptions() {
		if f.matches(e, move) {
			return e.why
		}
	}
	return ""
}

func (f *Fix) matches(e exemption, move string) bool {
	return f.has(e.fix) && (e.move == move || e.move == "*")
}
