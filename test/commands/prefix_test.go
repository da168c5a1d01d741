package commands

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// numbered adds two tables whose IDs are numbers from 1, each behind a text of its own, and one whose IDs are UUIDs. Events of the type
// stray have no route.
func (s *site) numbered() *site {
	s.t.Helper()
	uuid := "uuid"
	if s.mysql != nil {
		uuid = "binary(16)"
	}
	config := "tables:\n"
	for _, t := range []struct{ name, id, made string }{{"orders", "bigint", `{template: "orders-${id}"}`}, {"items", "int", `{template: "items-${id}"}`}, {"notes", uuid, "id"}} {
		s.sql(fmt.Sprintf("CREATE TABLE %s (id %s PRIMARY KEY, kind varchar(20) NOT NULL, about varchar(20), body text NOT NULL, at timestamp NOT NULL DEFAULT now())", t.name, t.id))
		config += fmt.Sprintf("  - {name: %s, columns: {event_id: %s, event_type: kind, aggregate_id: about, payload: body, created_at: at}}\n", t.name, t.made)
	}
	s.config = config + s.config + "errors: {unroutable: dead_letter, skip: [items-3]}\ndead_letter: {topic: " + s.name + ".kept}\n"
	return s.replace("  - {topic: "+s.name+"}", "  - {topic: "+s.name+", match: {event_type: placed}}").replace("partitions: 3", "partitions: 1")
}

// number inserts a row, whose body names it.
func (s *site) number(table string, id int, kind, more string) {
	s.t.Helper()
	s.sql(fmt.Sprintf("INSERT INTO %[1]s (id, kind, about, body) VALUES (%[2]d, '%[3]s', '%[1]s', '%[1]s %[2]d%[4]s')", table, id, kind, more))
}

// bodies are the records of the topic from one on: the ID of each with its value, shortened.
func (s *site) bodies(from, n int) (list []string) {
	s.t.Helper()
	for _, r := range s.consume(s.name, n)[from:] {
		list = append(list, fmt.Sprintf("%s: %.13s", header(r, "ce_id"), r.Value))
	}
	return list
}

// publishedAre verifies which records were published, from one on, whatever their order.
func (s *site) publishedAre(from int, want ...string) {
	s.t.Helper()
	got := s.bodies(from, from+len(want))
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		cdctest.Violation(s.t, cdctest.Difference(got, want), "published %q, want %q", got, want)
	}
	if n := s.records(s.name); n != from+len(want) {
		cdctest.Violation(s.t, cdctest.Duplicates, "%d records, want %d", n, from+len(want))
	}
}

// Two tables have the same numbers as IDs. With a text before them each event has an ID of its own, and every command finds the row that it
// names: event, replay, retries of dead letters, errors.skip, and retention.
func TestIDsBehindText(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		s.numbered().setup()
		relay := s.start()
		url := relay.leading()
		for id := range 3 {
			s.number("orders", id+1, "placed", "")
			s.number("items", id+1, "placed", "")
		}
		s.saves(url, "orders-3")
		s.publishedAre(0, "orders-1: orders 1", "items-1: items 1", "orders-2: orders 2", "items-2: items 2", "orders-3: orders 3")
		s.findsNumbers()
		s.says(0, "3 events published", "replay", "--yes", "--id", "orders-1", "--id", "items-2", "--id", "orders-2")
		s.publishedAre(5, "orders-1: orders 1", "items-2: items 2", "orders-2: orders 2")

		s.number("orders", 4, "stray", "")
		s.number("orders", 5, "stray", strings.Repeat("x", 20_000))
		s.number("items", 4, "placed", "")
		s.number("items", 5, "placed", strings.Repeat("y", 20_000))
		s.saves(url, "items-5")
		relay.await(`msg="event became a dead letter" table=\S+ event_id=orders-4 `)
		s.letters(2)
		s.says(0, "event orders-4", "dlq", "list", "orders-4")
		s.says(0, `"payload": "orders 4"`, "dlq", "show", "orders-4")
		s.says(0, "dead letter   unroutable since ", "event", "orders-5")
		relay.stops()
		s.replace(", match: {event_type: placed}", "")
		relay = s.start()
		url = relay.leading()
		s.says(0, "published: 2 dead letters", "dlq", "retry", "--all", "--yes")
		s.publishedAre(8, "items-4: items 4", "items-5: items 5yyyyyy", "orders-4: orders 4", "orders-5: orders 5xxxxx")
		s.deletesNumber(url)
	})
}

// deletesNumber has retention delete an old row, and not the one of the other table with the same number.
func (s *site) deletesNumber(url string) {
	s.t.Helper()
	old := "now() - INTERVAL 2 DAY"
	if s.mysql == nil {
		old = "now() - interval '2 days'"
	}
	s.number("items", 6, "placed", "")
	s.sql("INSERT INTO orders (id, kind, about, body, at) VALUES (6, 'placed', 'orders', 'old', " + old + ")")
	s.saves(url, "orders-6")
	s.config += "retention: {keep: 1d}\n"
	eventually(s.t, func() error {
		if r := s.run("retention", "run"); !strings.Contains(r.stdout+r.stderr, "rows=1") {
			return errors.New(r.String())
		}
		return nil
	})
	s.says(0, "not there: never committed, or removed since", "event", "orders-6")
	s.says(0, "1 event would be published", "replay", "--dry-run", "--id", "items-6")
}

// findsNumbers asks for events by their IDs.
func (s *site) findsNumbers() {
	s.t.Helper()
	for id, table := range map[string]string{"orders-1": "orders", "items-1": "items", "items-3": "items"} {
		var found struct{ Rows []struct{ Table string } }
		r := s.raw("", "event", id, "-o", "json")
		if err := json.Unmarshal([]byte(r.stdout), &found); err != nil || len(found.Rows) != 1 || !strings.HasSuffix(found.Rows[0].Table, "."+table) {
			s.t.Errorf("event %s: %v: %s", id, err, r)
		}
	}
	s.says(0, "published     NAME, partition 0", "event", "items-2")
	s.says(0, "left out by the configuration (errors.skip", "event", "items-3")
	s.says(0, "not there: never committed", "event", "orders-9")
	s.says(0, "not there: never committed", "event", eventID(1)) // an ID of notes
	s.says(1, "no event in the outbox matches --id orders-9", "replay", "--id", "orders-9")
	for _, args := range []string{"event 1", "replay --id 1", "replay --id orders-1 --id orders-x", "replay --table orders --id items-1", "event orders-99999999999999999999", "replay --id items-"} {
		s.says(2, "not an event ID: ", strings.Fields(args)...)
	}
	s.says(2, `not an event ID: those of table `, "replay", "--table", "orders", "--id", "items-1")
}
