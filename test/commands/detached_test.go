package commands

import (
	"fmt"
	"testing"
)

// event, replay, repair and setup --backfill read what retention has detached from the table as well, also rows whose time is no date.
func TestDetachedPartitionsAreRead(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		s.config += "retention: {ahead: 8, keep: 2d, drop: false}\n"
		old := "INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, payload, occurred_at, created_at) VALUES "
		if s.mysql != nil {
			s.setup().oldDays("", 5)
			s.sql("DELETE FROM outbox", old+fmt.Sprintf("(UNHEX(REPLACE('%s', '-', '')), 'Order', '42', 'placed', '{}', '2026-01-02', UTC_TIMESTAMP(6) - INTERVAL 4 DAY)", eventID(1)))
		} else {
			s.oldDays("", 5)
			s.setup().sql(old + fmt.Sprintf("('%s', 'Order', '42', 'placed', '{}', '2026-01-02', now() - interval '4 days')", eventID(1)))
		}
		odd := []string{"'infinity'", "'-infinity'", "'0044-03-15 BC'", "'12345-01-01'"}
		if s.mysql != nil {
			odd = []string{"'0000-00-00'", "'0001-01-01'", "'0000-00-00'", "'9999-12-31'"}
		}
		for i, at := range odd {
			s.eventAt(10+i, at)
		}
		s.insert(2).says(0, `change=detached`, "retention", "run")
		s.says(0, "goes to topic NAME", "event", eventID(1))
		s.says(0, "goes to topic NAME", "event", eventID(10))
		s.says(0, "1 event published", "replay", "--key", "42", "--id", eventID(1))
		s.says(0, "6 events published", "replay", "--key", "42")
		s.says(0, "published 6 rows", "repair", "--all")
		s.says(0, "published 6 rows", "setup", "--backfill")
		s.consume(s.name, 19)
		if s.sql("DELETE FROM outbox"); s.mysql != nil {
			s.says(0, "dropped", "position", "reset")
		} else {
			s.dropSlot()
		}
		s.says(5, "what is detached from table "+s.qualified("outbox")+" has rows", "setup") // the position is lost, and with it whether they were published
	})
}
