package commands

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// A condition that the database refuses, also one that changes what stands around it, is refused before anything is made. One that it
// takes selects rows of every table, whatever it contains.
func TestBackfillConditions(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		s.table("a")
		s.replace("partitions: 3", "partitions: 1")
		for i, status := range []string{"CREATED", "PUBLISHED", "FAILED", "MAX_RETRY"} {
			s.sql(fmt.Sprintf(`INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload, created_at, status, error_message)
				VALUES ('%s', 'Order', '1', 'OrderPlaced', '{}', '2026-01-02 03:04:05', '%s', 'why? ''$1'' 100%%')`, eventID(i), status))
		}
		for _, condition := range []string{
			"stat = 'CREATED'", "status IN ('CREATED'", "status = 'CREATED') OR (1 = 1", "status = 'CREATED' ORDER BY id", "status = 'CREATED' LIMIT 1",
			"status = 'CREATED'; DELETE FROM outbox_events", "status = 'CREATED' -- '\n) OR (1 = 1", "status = 'CREATED' UNION SELECT 1", "/* status = 'CREATED'", "no_function(id)",
		} {
			out := s.says(2, "the condition cannot be used on table", "setup", "--backfill", "--where", condition)
			if !strings.Contains(out, "Fix: write what follows WHERE") || strings.Count(out, "\n") != 1 {
				t.Errorf("%s: %s", condition, out)
			}
		}
		s.says(2, "--where says which rows --backfill publishes", "setup", "--where", "status = 'CREATED'")
		s.says(2, "--where is empty", "setup", "--backfill", "--where", " ")
		s.says(2, "--print and --backfill cannot be combined", "setup", "--backfill", "--print", "--where", "1 = 1")
		if s.mysql == nil {
			s.says(3, "publication", "check")
			s.sql("CREATE PUBLICATION " + s.slot() + " FOR TABLE outbox_events") // fails if one was made
			s.sql("DROP PUBLICATION " + s.slot())
		} else {
			s.says(3, "no checkpoint", "check")
		}
		out := s.says(0, "published 2 rows", "setup", "--backfill", "--where", "status IN ('CREATED', 'FAILED') AND error_message LIKE '%?%$1%100\\%' -- ours")
		if !strings.Contains(out, "the backfill publishes the 2 rows where status IN") {
			t.Errorf("it does not count: %s", out)
		}
		s.consume(s.name, 2)
		if n := s.records(s.name); n != 2 {
			t.Errorf("%d records", n)
		}
	})
}

// A table that is there is not said to be created where the relay's user may not see it before setup grants it that.
func TestSetupSaysWhatItHasMade(t *testing.T) {
	t.Parallel()
	onMySQL(t, func(s *site) {
		s.more().asReplicator("making")
		s.says(0, "more: exists\n", "setup", "--skip-existing")
	})
}

// On MySQL and MariaDB the position is taken under a lock, which the relay's user may not have.
func TestBackfillWithoutTheRightToLock(t *testing.T) {
	t.Parallel()
	onMySQL(t, func(s *site) {
		s.setup().says(0, "dropped", "teardown", "--yes")
		s.asReplicator("unlocking")
		owner := s.env
		s.env = nil
		s.sql("GRANT SELECT ON "+s.name+".* TO unlocking").insert(1).says(2, "set CDC_RELAY_OWNER_DSN to the connection string of the tables' owner, or GRANT LOCK TABLES on their database", "setup", "--backfill", "--where", "1 = 1")
		s.env = owner
		s.says(0, "published 1 row", "setup", "--backfill", "--where", "1 = 1")
	})
}

// A condition counts for every table: where one has not the column, that one is named.
func TestBackfillConditionOnSeveralTables(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		s.setup().says(0, "dropped", "teardown", "--yes")
		id := "bigint PRIMARY KEY, kind varchar(9) NOT NULL, body varchar(9) NOT NULL, at timestamp NOT NULL"
		s.sql("CREATE TABLE more (id "+id+")", "INSERT INTO more VALUES (7, 'Paid', '{}', '2026-01-02')").insert(1)
		s.config = "tables: [{name: outbox}, {name: more, columns: {event_id: id, event_type: kind, payload: body, created_at: at}}]\n" + s.config
		s.replace("partitions: 3", "partitions: 1")
		s.says(2, "more", "setup", "--backfill", "--where", "event_type = 'order.placed'")
		s.says(0, "published 2 rows", "setup", "--backfill", "--where", "1 = 1")
		s.consume(s.name, 2)
	})
}

// A repair makes dead letters of rows without a readable ID, each its own. Another one leaves a letter of the first before those of its key
// that came meanwhile.
func TestLettersOfRepairs(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		s.config += "errors: {unroutable: dead_letter, malformed: dead_letter}\n"
		all, some := "  - {topic: "+s.name+"}", "  - {topic: "+s.name+", match: {event_type: none}}"
		s.replace(all, some).setup().says(0, "kept", "teardown", "--yes")
		s.event(1, "a", "")
		letters := 1
		if s.mysql != nil {
			s.sql("INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, payload, occurred_at) VALUES ('one', 'Order', 'b', 'x', '{}', now()), ('two', 'Order', 'b', 'x', '{}', now())")
			letters = 3
		}
		s.says(0, fmt.Sprintf("dropped (0) and dead letters (%d,", letters), "setup", "--backfill")
		s.letters(letters)
		relay := s.start()
		relay.leading()
		s.event(2, "a", s.name)
		s.letters(letters + 1)
		relay.stops()
		s.replace(some, all).says(0, "published", "repair", "--since", "2020-01-01T00:00:00Z")
		relay = s.start()
		relay.leading()
		s.says(0, "published", "dlq", "retry", eventID(1), "--yes")
		s.letters(letters - 1)
		order := ""
		for _, r := range s.consume(s.name, 3) {
			order += header(r, "ce_id")[35:]
		}
		if n := s.records(s.name); order != "122" || n != 3 {
			cdctest.Violation(t, cdctest.Order, "the order is %s, of %d records", order, n)
		}
	})
}

// A repair says how many rows it has not published because errors.* drops them or makes dead letters of them.
func TestRepairSaysWhatItDoesNotPublish(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.sql("CREATE TABLE jobs (id int PRIMARY KEY, type varchar(9), seq int NOT NULL)", "INSERT INTO jobs VALUES (1, 'placed', 1), (2, NULL, 2), (3, 'placed', 3)")
	s.config = "tables: [{name: jobs, columns: {event_id: {template: \"job-${id}\"}, event_type: type, payload: id}, order_by: seq}]\n" + s.config +
		"errors: {malformed: drop}\n"
	s.says(0, "read 3 rows; published all but what errors.* dropped (1) and dead letters (0, older ones included: `cdc-relay dlq list`); consumers may have some of them already\ndone", "setup", "--backfill")
	s.replace("malformed: drop", "malformed: dead_letter")
	s.says(0, "letters", "setup", "--skip-existing")
	s.says(0, "read 3 rows; published all but what errors.* dropped (0) and dead letters (1, older", "backfill")
	s.letters(1)
	if n := s.records(s.name); n != 4 {
		t.Errorf("%d records, want 4", n)
	}
}
