package commands

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
)

// timeType is the type of a time.
func (s *site) timeType() string {
	if s.mysql == nil {
		return "timestamptz"
	}
	return "datetime"
}

// Rows of one time come in the order of their IDs, which is said if these do not grow; tables[].order_by names what does.
func TestOrderBy(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		const rows = 10
		s.sql("CREATE TABLE jobs (id varchar(64) PRIMARY KEY, n int NOT NULL, at " + s.timeType() + " NOT NULL)")
		var values []string
		for n := range rows {
			values = append(values, fmt.Sprintf("('%x', %d, '2026-01-02 03:04:05')", sha256.Sum256([]byte{byte(n)}), n))
		}
		s.sql("INSERT INTO jobs (id, n, at) VALUES " + strings.Join(values, ", "))
		s.config = "tables: [{name: jobs, columns: {event_id: id, event_type: {const: Placed}, aggregate_id: {const: one}, payload: n, created_at: at}}]\n" + s.config
		const warning = "may change places"
		if said := s.says(0, "published 10 rows", "setup", "--backfill"); !strings.Contains(said, warning) {
			s.t.Errorf("setup --backfill: %s", said)
		}
		s.replace("created_at: at}", "created_at: at}, order_by: n")
		if said := s.says(0, "published 10 rows", "repair", "--all"); strings.Contains(said, warning) {
			s.t.Errorf("repair: %s", said)
		}
		for n, r := range s.consume(s.name, 2*rows)[rows:] {
			if string(r.Value) != fmt.Sprint(n) {
				s.t.Errorf("row %s comes as number %d", r.Value, n)
			}
		}
		s.replace("order_by: n", "order_by: m").says(2, `has no column "m", which tables[].order_by names`, "repair", "--all")
		s.says(3, `has no column "m", which tables[].order_by names`, "check")
		if s.mysql != nil {
			s.sql("ALTER TABLE jobs ADD f float")
			s.replace("order_by: m", "order_by: f").says(2, "is read by column f, of type FLOAT", "repair", "--all")
		}
	})
}

// The WAL and the table give a number with every digit that tells it from others, whatever the database's own setting is: a row's place in the
// order is compared with it.
func TestDigitsOfNumbers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.sql("CREATE TABLE jobs (id int PRIMARY KEY, f double precision NOT NULL)", "INSERT INTO jobs VALUES (1, 0.1::float8 + 0.2)",
		`ALTER DATABASE "`+s.name+`" SET extra_float_digits = 0`)
	s.config = "tables: [{name: jobs, columns: {event_id: {template: \"job-${id}\"}, event_type: {const: Placed}, payload: f}, order_by: id}]\n" + s.config
	s.says(0, "published 1 row", "setup", "--backfill")
	relay := s.start()
	relay.leading()
	s.sql("INSERT INTO jobs VALUES (2, 0.1::float8 + 0.2)")
	for _, r := range s.consume(s.name, 2) {
		if string(r.Value) != "0.30000000000000004" {
			t.Errorf("record %s has %s", r.Key, r.Value)
		}
	}
	relay.stops()
}

// What gives no place to a row does not matter where another one is selected, or rows are chosen by their IDs; elsewhere it is said, by check
// first, and nothing is left behind.
func TestRowsWithoutAPlace(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		s.sql("CREATE TABLE jobs (id int PRIMARY KEY, body varchar(9), status varchar(9), at "+s.timeType()+" NULL)",
			"INSERT INTO jobs VALUES (1, 'old', 'SENT', NULL), (2, 'new', 'NEW', '2026-01-02 03:04:05')")
		s.config = "tables: [{name: jobs, columns: {event_id: {template: \"job-${id}\"}, event_type: {const: Placed}, payload: body, created_at: at}}]\n" + s.config
		s.says(0, "published 1 row", "setup", "--backfill", "--where", "status = 'NEW'")
		for _, said := range []string{"is NULL in a row that is selected", "has neither a number that the database counts up nor the time"} {
			s.says(0, "repair, setup --backfill and a replay of all rows are not possible: ", "check")
			s.says(0, "job-1", "event", "job-1")
			s.says(0, "1 event published", "replay", "--id", "job-1", "--yes")
			s.says(2, said, "replay", "--yes")
			s.says(2, said, "repair", "--all")
			if s.mysql == nil {
				s.sql("DO $$BEGIN ASSERT NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = '" + s.slot() + "_repair'); END$$")
			}
			s.config = strings.Replace(s.config, ", created_at: at", "", 1)
		}
		s.says(2, "cannot be selected by time", "replay", "--id", "job-1", "--since", "2026-01-01T00:00:00Z")
	})
}

// A replay leaves out, and counts, what the relay makes a dead letter.
func TestReplayLeavesOutDeadLetters(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.sql("CREATE TABLE jobs (id int PRIMARY KEY, type varchar(9), seq int NOT NULL)", "INSERT INTO jobs VALUES (1, 'placed', 1), (2, NULL, 2), (3, 'placed', 3)")
	s.config = "tables: [{name: jobs, columns: {event_id: {template: \"job-${id}\"}, event_type: type, payload: id}, order_by: seq}]\n" + s.config +
		"errors: {malformed: dead_letter}\ndead_letter: {topic: " + s.name + "_letters}\n"
	s.says(0, "done", "setup", "--skip-existing")
	for _, args := range [][]string{{"--dry-run"}, {"--yes"}} {
		s.says(0, "published, 1 event not, because of errors.* in the configuration", append([]string{"replay"}, args...)...)
	}
	if n := s.records(s.name); n != 2 {
		s.t.Errorf("%d records, want 2", n)
	}
}
