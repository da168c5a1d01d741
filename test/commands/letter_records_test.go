package commands

import (
	"strings"
	"syscall"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// Rows that only dead letters of the relay can publish again are kept by a configuration that knows nothing of them, and by one of
// another relay. No letter is without its payload until the database says that the relay has letters. A relay that is gone is
// forgotten as the error says.
//
//follows:cmd.unrecorded setup
func TestRetentionKnowsAllDeadLetters(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		t := s.t
		if s.mysql != nil {
			s.replace("mysql: {", "mysql: {id: "+s.name+", ")
		}
		s.replace("  - {topic: "+s.name+"}", "  - {topic: "+s.name+", match: {aggregate_type: Order}}")
		timer := s.config + "retention: {delete: {older_than: 1d}}\n"
		s.config += "errors: {unroutable: dead_letter}\ndead_letter: {topic: " + s.name + ".kept}\n"
		relaying := s.config
		for topic, partitions := range map[string]int{s.name + ".kept": 8, s.name + ".kept.index": 1} {
			if err := kafka.CreateTopic(t.Context(), topic, partitions, map[string]string{"cleanup.policy": "compact", "max.message.bytes": "5000"}); err != nil {
				t.Fatal(err)
			}
		}
		records, old, value := "cdc_relay.dead_letters", "now() - interval '3 days'", "'%s'"
		if s.mysql != nil {
			records, old, value = "cdc_relay_dead_letters", "UTC_TIMESTAMP(6) - INTERVAL 3 DAY", "UNHEX(REPLACE('%s', '-', ''))"
		}
		s.says(0, "created", "setup", "--partition", "none")
		s.sql("DELETE FROM " + records)
		s.says(0, "warn  dead letters: the database does not say", "check")
		relay := s.start()
		relay.leading()
		s.sql("INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, payload, occurred_at, created_at) VALUES (" +
			strings.ReplaceAll(value, "%s", eventID(1)) + ", 'Stray', 'a', 'x', '" + strings.Repeat("x", 20_000) + "', " + old + ", " + old + ")")
		if code := relay.wait(); code != 2 {
			t.Errorf("a letter without its payload that nobody knows of: exit %d", code)
		}
		args, err := cdctest.PrintedCommand(t.Context(), relay.await("Fix: run `cdc-relay setup` with the owner's connection string"), "setup")
		if err != nil {
			t.Fatal(err)
		}
		s.says(0, "done", args...)
		relay = s.start()
		relay.await("event became a dead letter")
		for name, config := range map[string]string{"timer": timer, "relay": relaying + "retention: {delete: {older_than: 1d}}\n"} {
			s.config = config
			if r := s.run("partitions", "run"); r.code == 0 {
				cdctest.Violation(t, cdctest.Unpublished, "%s: %s", name, r)
			} else if !strings.Contains(r.stderr, "the payload of 1 dead letter is only in the outbox table") {
				t.Errorf("%s: %s", name, r)
			}
		}
		s.config = relaying
		s.says(0, "dropped: 1 letter", "dlq", "drop", "--all", "--yes")
		table := "public.outbox"
		if s.mysql != nil {
			table = s.name + ".outbox"
		}
		s.sql("INSERT INTO " + records + " VALUES ('" + table + "', 'gone', 'gone of it')")
		s.config = timer
		r := s.run("partitions", "run")
		fix, err := cdctest.Printed(r.stderr, "DELETE FROM")
		if r.code == 0 || err != nil {
			t.Fatalf("letters that cannot be read: %s, %v", r, err)
		}
		s.sql(strings.ReplaceAll(fix, "NAME", s.name))
		s.says(0, "nothing is left to do", "partitions", "run")
		if code := relay.signal(syscall.SIGTERM); code != 0 {
			t.Errorf("SIGTERM: exit %d", code)
		}
	})
}
