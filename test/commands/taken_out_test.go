package commands

import (
	"fmt"
	"testing"
)

// event, replay, repair and setup --backfill read what retention has taken out of the table as well.
func TestTakenOutPartitionsAreRead(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		s.config += "partitions: {ahead: 3, ttl: 2d, drop: false}\n"
		old := "INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, payload, occurred_at, created_at) VALUES "
		if s.mysql != nil {
			s.setup().oldMySQLDay()
			s.sql("DELETE FROM outbox", old+fmt.Sprintf("(UNHEX(REPLACE('%s', '-', '')), 'Order', '42', 'placed', '{}', '2026-01-02', UTC_TIMESTAMP(6) - INTERVAL 4 DAY)", eventID(1)))
		} else {
			s.oldDays("", 5)
			s.setup().sql(old + fmt.Sprintf("('%s', 'Order', '42', 'placed', '{}', '2026-01-02', now() - interval '4 days')", eventID(1)))
		}
		s.insert(2).says(0, `change="taken out"`, "partitions", "run")
		s.says(0, "goes to topic NAME", "event", eventID(1))
		s.says(0, "1 event published", "replay", "--key", "42", "--id", eventID(1))
		s.says(0, "2 events published", "replay", "--key", "42")
		s.says(0, "published 2 rows", "repair", "--all")
		s.says(0, "published 2 rows", "setup", "--backfill")
		s.consume(s.name, 7)
	})
}
