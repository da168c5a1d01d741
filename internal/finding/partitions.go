package finding

import (
	"fmt"
	"time"
)

// leastAhead is how far daily partitions should reach ahead.
const leastAhead = 7 * 24 * time.Hour

// FewPartitions warns of a table whose daily partitions end soon: rows behind the last one cannot be dropped by day.
func FewPartitions(table string, ahead time.Duration) (Finding, bool) {
	if ahead >= leastAhead {
		return Finding{}, false
	}
	text := fmt.Sprintf("daily partitions of %s reach %d days ahead", table, ahead/(24*time.Hour))
	if ahead <= 0 {
		text = fmt.Sprintf("table %s has no daily partition for the rows of today", table)
	}
	return Finding{
		Severity: Warn, Subject: "partitions",
		Text: text + "; rows behind the last day are stored in the catch-all partition, and cannot be dropped with their day",
		Fix:  "run `cdc-relay schema apply` as the table's owner, before the partitions run out",
	}, true
}
