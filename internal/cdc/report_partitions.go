package cdc

import (
	"fmt"
	"time"
)

// leastAhead is how far daily partitions should reach ahead.
const leastAhead = 3 * 24 * time.Hour

// Partitions warns of a table whose daily partitions end soon: rows after the last one cannot be dropped by day. maintained is
// whether the relay is to make them.
func (r *Report) Partitions(table string, ahead time.Duration, maintained bool) {
	if ahead >= leastAhead {
		return
	}
	text := fmt.Sprintf("daily partitions of %s reach %d days ahead", table, ahead/(24*time.Hour))
	if ahead <= 0 {
		text = fmt.Sprintf("table %s has no daily partition for the rows of today", table)
	}
	fix := "run `cdc-relay retention run --ahead 14` as the table's owner, before the partitions run out"
	if maintained {
		fix = "start the relay, or find out from its log why it makes none; `cdc-relay retention run` makes them once"
	}
	r.Warn("partitions", fix,
		"%s; rows after the last day are stored in the catch-all partition, and cannot be dropped with their day", text)
}

// Routine tells whether a role may call the routine, whose name is in SQL, that maintains a table's partitions.
func (r *Report) Routine(role, routine, table string, may bool, err error) {
	switch {
	case err != nil:
		r.Fail("partitions", err)
	case !may:
		r.Warn("partitions", "set CDC_RELAY_OWNER_DSN to the connection string of the table's owner, and run `cdc-relay setup` once, or `cdc-relay retention run` from a timer",
			"%s may not call %s, or that is of another version or owner than the table's: the relay cannot maintain the partitions of %s", role, routine, table)
	default:
		r.OK("partitions", "%s may maintain the partitions of %s", role, table)
	}
}
