package fixes

import (
	"regexp"
	"strings"
)

// move is a command or setting that moves a position, a slot, a checkpoint, a partition or a letter.
type move struct {
	name    string
	printed *regexp.Regexp
}

// commands are those that move something, and not only show it.
func commands() []string {
	return []string{"dlq drop", "dlq retry", "partitions run", "position reset", "position set", "repair", "replay", "setup", "teardown"}
}

// moves returns what a fix may name that moves something.
func moves() []move {
	var all []move
	for _, command := range commands() {
		all = append(all, move{command, regexp.MustCompile("cdc-relay " + command + `\b`)})
	}
	for _, other := range [][2]string{
		{"run --start-from", `run --start-from`},
		// SQL
		{"slot", `(?i)pg_drop_repl|ALTER_REPLICATION_SLOT|\bdrop (the|an unused) slot|must be created again`},
		{"publication", `\b(ALTER|DROP|CREATE) PUBLICATION\b`},
		{"binlog", `FLUSH BINARY LOGS|RESET (MASTER|BINARY)|gtid_(mode|purged|slave_pos)`},
		{"drop", `DROP (TABLE|PARTITION|FUNCTION|PROCEDURE)|drop the partitions|rename or drop it`},
		// Settings
		{"checkpoint", `checkpoint (key )?of its own|checkpoint\.redis, or|checkpoint\.redis or|own (checkpoint\.|…)|in checkpoint\.file|set %s to another`},
		{"dead_letter", `dead_letter\.(topic|partitions|ttl)|: dead_letter|to dead_letter`},
		{"delivery", `\bdelivery: |\bset delivery\b`},
		{"errors drop", `errors\.[\w*]+: drop`},
		{"errors.skip", `errors\.skip`},
		{"kafka.position_topic", `kafka\.position_topic`},
		{"kafka.transactional_id", `kafka\.transactional_id`},
		{"partitions", `partitions\.(ttl|create_ahead|drop)|remove partitions from`},
		{"position.conflict", `position\.conflict`},
		{"retention", `retention\.`},
		{"source.mysql.id", `source\.mysql\.id`},
		{"source.postgres.publication", `source\.postgres\.publication`},
		{"source.postgres.slot", `source\.postgres\.slot`},
	} {
		all = append(all, move{other[0], regexp.MustCompile(other[1])})
	}
	return all
}

// in returns the names of the moves that a fix names.
func in(fix string) []string {
	fix = strings.ReplaceAll(fix, "cdc-relay setup --print", "")
	var names []string
	for _, m := range moves() {
		if m.printed.MatchString(fix) {
			names = append(names, m.name)
		}
	}
	return names
}
