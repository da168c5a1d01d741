package commands

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// Rows that only dead letters of the relay can publish again are kept by a configuration that knows nothing of them, and by one of
// another relay. No letter is without its payload until the database says that the relay has letters. A relay that is gone is
// forgotten as the error says. A relay whose database does not answer for a while waits with such a letter. The letters of a relay with
// another Kafka are looked at where its configuration is given. On PostgreSQL rows wait for the slots of all these relays.
//
//follows:source.Unrecorded setup
//follows:stubs.stubsOf partitions run
//follows:stubs.stubsOf#2 dlq retry
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
		if said, _ := relay.find(regexp.MustCompile("event became a dead letter")); len(said) > 0 {
			t.Errorf("it is refused, and counts as a letter: %s", said)
		}
		args, err := cdctest.PrintedCommand(t.Context(), relay.await("Fix: run `cdc-relay setup` with the owner's connection string"), "setup")
		if err != nil {
			t.Fatal(err)
		}
		s.says(0, "done", args...)
		release := s.locked(records)
		relay = s.start()
		if said := relay.await("dead letters wait until it is known|publishing stops"); strings.Contains(said, "publishing stops") {
			t.Errorf("a database that does not answer for a while ends the relay: %s", said)
		}
		release()
		relay.await("event became a dead letter")
		for name, config := range map[string]string{"timer": timer, "relay": relaying + "retention: {delete: {older_than: 1d}}\n"} {
			s.config = config
			if r := s.run("partitions", "run"); r.code == 0 {
				cdctest.Violation(t, cdctest.Unpublished, "%s: %s", name, r)
			} else if !strings.Contains(r.stderr, "the payload of 1 dead letter of relay") {
				t.Errorf("%s: %s", name, r)
			}
		}
		said := s.otherKafka(timer, relaying)
		if code := relay.signal(syscall.SIGTERM); code != 0 {
			t.Errorf("SIGTERM: exit %d", code)
		}
		s.config = relaying
		s.replace(", match: {aggregate_type: Order}", "")
		relay = s.start()
		relay.leading()
		s.follows(0, "published: 1 letter", said, "dlq retry")
		if n := s.records(s.name); n != 1 {
			cdctest.Violation(t, cdctest.Lost, "%d records of one event", n)
		}
		relaying = s.config
		table := "public.outbox"
		if s.mysql != nil {
			table = s.name + ".outbox"
		}
		if s.mysql == nil {
			lags := s.name + "_lags"
			s.sql("INSERT INTO " + records + " VALUES ('" + table + "', 'lags', '" + s.name + " " + lags + "')")
			s.sql("SELECT pg_create_logical_replication_slot('" + lags + "', 'pgoutput')")
			s.sql("CREATE TABLE behind_the_slot (x int)")
			s.config = timer
			if r := s.run("partitions", "run"); r.code == 0 {
				cdctest.Violation(t, cdctest.Unpublished, "another relay has not passed the row: %s", r)
			} else if !strings.Contains(r.stderr, "another relay of the table lags") {
				t.Errorf("another relay has not passed the row: %s", r)
			}
			s.sql("SELECT pg_drop_replication_slot('" + lags + "')")
			s.sql("DELETE FROM " + records + " WHERE topic = 'lags'")
		}
		s.sql("INSERT INTO " + records + " VALUES ('" + table + "', 'gone', 'gone of it')")
		s.config = timer
		r := s.run("partitions", "run")
		fix, err := cdctest.Printed(r.stderr, "DELETE FROM")
		if r.code == 0 || err != nil {
			t.Fatalf("letters that cannot be read: %s, %v", r, err)
		}
		s.sql(strings.ReplaceAll(fix, "NAME", s.name))
		s.says(0, "rows=1", s.withLettersOf(timer, relaying)...)
		if code := relay.signal(syscall.SIGTERM); code != 0 {
			t.Errorf("SIGTERM: exit %d", code)
		}
	})
}

// otherKafka makes a pass with a configuration whose Kafka is not that of the relay with the letters: it says so, and the command that
// it prints looks at these, too. It returns what that says.
func (s *site) otherKafka(timer, relaying string) string {
	s.t.Helper()
	args := s.withLettersOf(timer, relaying)
	r := s.run("partitions", "run")
	for _, want := range []string{"dead letters of relay", "another Kafka than "} {
		if r.code != 1 || !strings.Contains(r.stderr, want) {
			s.t.Errorf("from another Kafka: %s\nwant %q", r, want)
		}
	}
	printed, err := cdctest.PrintedCommand(s.t.Context(), r.stderr, "partitions run", "FILE", args[3])
	if err != nil || !slices.Equal(printed, args) {
		s.t.Fatalf("%q is printed: %v", printed, err)
	}
	r = s.run(args...)
	if r.code == 0 {
		cdctest.Violation(s.t, cdctest.Unpublished, "with the letters of the other Kafka: %s", r)
	} else if !strings.Contains(r.stderr, "the payload of 1 dead letter of relay") {
		s.t.Errorf("with the letters of the other Kafka: %s", r)
	}
	return r.stderr
}

// withLettersOf is a pass whose Kafka is another one, with the configuration of a relay.
func (s *site) withLettersOf(timer, relaying string) []string {
	s.t.Helper()
	other, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(other.Close)
	s.config = timer
	s.replace(kafka.Bootstrap()[0], other.ListenAddrs()[0])
	file := filepath.Join(s.dir, "relay.yaml")
	if err := os.WriteFile(file, []byte(relaying), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return []string{"partitions", "run", "--letters-of", file}
}

// locked makes readers of a table wait until release is called.
func (s *site) locked(table string) (release func()) {
	s.t.Helper()
	if s.pg != nil {
		conn, err := pgconn.Connect(s.t.Context(), s.pg.DSN(s.name, ""))
		if err == nil {
			_, err = conn.Exec(s.t.Context(), "BEGIN; LOCK TABLE "+table).ReadAll()
		}
		if err != nil {
			s.t.Fatal(err)
		}
		return func() { _ = conn.Close(context.WithoutCancel(s.t.Context())) }
	}
	db, err := sql.Open("mysql", s.mysql.DSN(s.name, ""))
	if err == nil {
		db.SetMaxOpenConns(1)
		_, err = db.ExecContext(s.t.Context(), "LOCK TABLES "+table+" WRITE")
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return func() { _ = db.Close() }
}

// Tables of one database that several roles own share the table that says which relays have dead letters. A role that may not use its
// schema is told what to grant, and teardown leaves what it may not remove.
func TestLetterRecordsOfSeveralOwners(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.config += "errors: {unroutable: dead_letter}\ndead_letter: {topic: " + s.name + ".kept}\n"
	shared := s.config
	for _, owner := range []string{"first_letters", "second_letters"} {
		s.sql("CREATE ROLE "+owner+" LOGIN", "GRANT CREATE ON DATABASE "+s.name+" TO "+owner, "CREATE SCHEMA "+owner+" AUTHORIZATION "+owner)
		s.config = shared + "tables: [{name: " + owner + ".outbox}]\n"
		s.replace("postgres: {", "postgres: {slot: "+owner+", publication: "+owner+", ")
		s.env = []string{"CDC_RELAY_OWNER_DSN=" + s.pg.DSN(s.name, owner)}
		if owner == "first_letters" {
			s.says(0, "done", "setup", "--partition", "none")
			continue
		}
		said := s.says(2, `role "second_letters" may not use schema cdc_relay, which another role owns`, "setup", "--partition", "none")
		grant, err := cdctest.Printed(said, "GRANT USAGE")
		if err != nil {
			t.Fatal(err)
		}
		s.as("first_letters", grant)
		s.says(0, "done", "setup", "--partition", "none")
		s.says(0, "second_letters.outbox: dropped", "teardown", "--table", "--yes")
	}
}
