package cdc

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// leastAhead is how far daily partitions should reach ahead.
const leastAhead = 7 * 24 * time.Hour

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

// Routines verifies that a role may call the routines that maintain the partitions, which are named by their tables.
func (r *Report) Routines(role string, names map[string]string, may func(table string) (bool, error)) {
	for _, table := range slices.Sorted(maps.Keys(names)) {
		ok, err := may(table)
		switch {
		case err != nil:
			r.Fail("partitions", err)
		case !ok:
			r.Warn("partitions", "set CDC_RELAY_OWNER_DSN to the connection string of the table's owner, and run `cdc-relay setup` once, or `cdc-relay retention run` from a timer",
				"%s may not call %s, or that is of another version or owner than the table's: the relay cannot maintain the partitions of %s", role, names[table], table)
		default:
			r.OK("partitions", "%s may maintain the partitions of %s", role, table)
		}
	}
}
