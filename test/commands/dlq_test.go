package commands

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// event inserts an event of a key that names a topic; "" names none.
func (s *site) event(id int, key, topic string) {
	s.t.Helper()
	value := "'%s'"
	if s.mysql != nil {
		value = "UNHEX(REPLACE('%s', '-', ''))"
	}
	s.sql("INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, topic, payload, occurred_at) VALUES (" +
		fmt.Sprintf(value, eventID(id)) + fmt.Sprintf(", 'Order', '%s', 'OrderPlaced', '%s', '{}', '2026-01-02 03:04:05')", key, topic))
}

// eventAt inserts an event of a time in SQL.
func (s *site) eventAt(id int, created string) {
	s.t.Helper()
	into, value := "INSERT INTO outbox", "'%s'"
	if s.mysql != nil {
		into, value = "INSERT IGNORE INTO outbox", "UNHEX(REPLACE('%s', '-', ''))" // a date 0 is a warning then
	}
	s.sql(into + " (event_id, aggregate_type, aggregate_id, event_type, payload, occurred_at, created_at) VALUES (" +
		fmt.Sprintf(value, eventID(id)) + ", 'Order', '42', 'OrderPlaced', '{}', '2026-01-02 03:04:05', " + created + ")")
}

// An event that cannot be routed is kept, listed, shown, refused again, and dropped; what waited behind it is published then.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.says(2, "the configuration has no dead letters. Fix: set one of errors.* to dead_letter", "dlq", "list")
	s.config += "errors: {unroutable: dead_letter}\n"
	s.setup()
	s.says(0, "topic NAME.dead-letters: can hold dead letters", "check")
	s.says(0, "0 dead letters", "dlq", "list")
	relay := s.start()
	url := relay.leading()
	s.event(1, "a", "no topic, this")
	s.event(2, "a", "")
	s.event(5, "d", "no topic, this")
	s.event(3, "b", "")
	s.published(url, 3)
	relay.await(`msg="event became a dead letter" table=\S+ event_id=` + eventID(1) + " key=a reason=unroutable")
	s.says(0, "all            3", "dlq", "list", "--count")
	s.says(0, "3 events, 1 of them held, of 2 keys", "status", "--url", url)
	s.says(0, "  unroutable, key a, topic none, attempts 0: event "+eventID(1), "dlq", "list")
	s.says(0, `"reason": "held"`, "dlq", "list", eventID(2), "-o", "json")
	s.says(0, "and 2 dead letters more", "dlq", "list", "--limit", "1")
	s.says(0, `"payload": "{}"`, "dlq", "show", eventID(1))
	s.says(0, "2 dead letters", "dlq", "drop", "--reason", "unroutable", "--dry-run")
	for _, bad := range []struct{ args, says string }{
		{"retry", "nothing says which dead letters to retry. Fix: give an ID, a filter, or --all"},
		{"retry --key c", "no dead letter matches"},
		{"show 42", "no dead letter has the ID 42. Fix: see `cdc-relay dlq list`"},
		{"list --until 2026-01-31", "not a time with its zone, such as DATE. Fix: "},
		{"list --limit 0", "--limit is 0. Fix: give 1 or more"},
		{"drop --all", "not confirmed"},
	} {
		if r := s.run(append([]string{"dlq"}, strings.Fields(bad.args)...)...); r.code == 0 || !strings.Contains(r.stderr, bad.says) {
			t.Errorf("dlq %s: %s", bad.args, r)
		}
	}
	s.says(1, "3 dead letters could not be published, or wait for one that cannot", "dlq", "retry", "--all", "--yes")
	relay.await(`msg="dead letter stays: it cannot be published" event_id=\S+ key=[ad] letter=`)
	s.says(0, "attempts 1", "dlq", "list", eventID(1))
	relay.stops()
	s.says(1, "none leads, or it waits for Kafka; the request is withdrawn, but what the relay has begun it ends. Fix: start the relay", "dlq", "retry", "--all", "--yes")
	skipping := "errors: {unroutable: dead_letter, skip: [" + eventID(5) + "]}\n"
	s.replace("errors: {unroutable: dead_letter}\n", skipping)
	relay = s.start()
	relay.leading()
	r := s.run("dlq", "retry", eventID(5))
	if r.code != 1 || !strings.Contains(r.stderr, "1 dead letter dropped and not published: errors.skip lists the event. Fix: to publish it after all, remove its ID from errors.skip") {
		t.Errorf("retry of an event that is skipped: %s", r)
	}
	relay.signal(syscall.SIGTERM)
	s.replace(skipping, "errors: {unroutable: dead_letter}\n")
	relay = s.start()
	url = relay.leading()
	s.sql("UPDATE outbox SET topic = '' WHERE aggregate_id = 'd'") // or the router refuses it again
	s.follows(0, "1 event published", r.stderr, "replay")
	on := s.config
	s.replace("errors: {unroutable: dead_letter}\n", "")
	said := s.says(0, "topic NAME.dead-letters: has 2 dead letters, which nobody can publish", "check")
	if !strings.Contains(said, "name it as dead_letter.topic until") {
		t.Errorf("check: %s", said)
	}
	s.config += "dead_letter: {topic: " + s.name + ".dead-letters}\n"
	s.follows(0, "all            2", said, "dlq list --count")
	s.says(0, "dropped: 1 dead letter", "dlq", "drop", eventID(1))
	relay.await(`msg="dead letter dropped, as asked" event_id=` + eventID(1) + " key=a letter=")
	s.event(4, "a", "")
	s.published(url, 4)
	s.follows(0, "all            0", said, "dlq list --count")
	s.config = on
	s.lostRecord(6)
	published := map[string]int{}
	for _, r := range s.consume(s.name, s.records(s.name)) {
		published[header(r, "ce_id")]++
	}
	if n := published[eventID(6)]; n != 1 {
		cdctest.Violation(t, cdctest.Lost, "%d records of the event whose letter was deleted", n)
	}
	if published[eventID(1)] > 0 {
		cdctest.Violation(t, cdctest.Resurrected, "a dropped event was published")
	}
	if len(published) != 5 {
		t.Errorf("published: %v", published)
	}
	relay.signal(syscall.SIGTERM)
	s.says(0, "topics NAME.dead-letters and NAME.dead-letters.index: kept", "teardown", "--yes")
}

// lostRecord makes a letter whose record is deleted, which show reports, and does what it prints.
func (s *site) lostRecord(id int) {
	s.t.Helper()
	s.event(id, "e", "no topic, this")
	eventually(s.t, func() error {
		if r := s.run("dlq", "show", eventID(id)); r.code != 0 {
			return errors.New(r.stderr)
		}
		return nil
	})
	client := s.kafkaClient()
	defer client.Close()
	admin, topic := kadm.NewClient(client), s.name+".dead-letters"
	policy := func(value string) {
		if _, err := admin.AlterTopicConfigs(s.t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "cleanup.policy", Value: &value}}, topic); err != nil {
			s.t.Fatal(err)
		}
	}
	policy("delete") // or records cannot be deleted; the broker hears of it a little later
	eventually(s.t, func() error {
		ends, err := admin.ListEndOffsets(s.t.Context(), topic)
		if err != nil {
			return err
		}
		deleted, err := admin.DeleteRecords(s.t.Context(), ends.Offsets())
		return errors.Join(err, deleted.Error())
	})
	policy("compact")
	shown := s.raw("", "dlq", "show", eventID(id))
	if shown.code != 1 || !strings.Contains(shown.stderr, "its record was deleted") {
		s.t.Fatalf("show: %s", shown)
	}
	s.sql("UPDATE outbox SET topic = '' WHERE aggregate_id = 'e'")
	s.follows(0, "1 event published", shown.stderr, "replay")
	s.follows(0, "dropped: 1 dead letter", shown.stderr, "dlq drop")
}
