package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// The table of Debezium's outbox event router, and how an application writes into it.
const (
	debeziumTable = `CREATE TABLE outboxevent (id %s PRIMARY KEY, aggregatetype varchar(255) NOT NULL, aggregateid varchar(255) NOT NULL,
  type varchar(255) NOT NULL, payload %s)`
	debeziumRow = `INSERT INTO outboxevent VALUES ('0198c0de-0000-7000-8000-000000000001', 'Order', '42', 'OrderPlaced', '{"total": 1}')`
	// Debezium's record of this one has an empty key, and no value under its StringConverter.
	debeziumEmpty = `INSERT INTO outboxevent VALUES ('0198c0de-0000-7000-8000-000000000002', 'Order', '', 'OrderPlaced', NULL)`
)

// wildTables are outbox tables of other projects whose columns mislead. {uuid} and so on are types, and [name] is a quoted name.
const wildTables = `
CREATE TABLE [OutboxMessage] ([SequenceNumber] {serial} PRIMARY KEY, [EnqueueTime] {time}, [SentTime] {time} NOT NULL, [Headers] {text}, [Properties] {text},
  [InboxMessageId] {uuid}, [OutboxId] {uuid}, [MessageId] {uuid} NOT NULL, [ContentType] varchar(256) NOT NULL, [MessageType] {text} NOT NULL, [Body] {text} NOT NULL,
  [CorrelationId] {uuid}, [DestinationAddress] varchar(256), [ExpirationTime] {time});
CREATE UNIQUE INDEX by_outbox ON [OutboxMessage] ([OutboxId], [SequenceNumber]);
CREATE TABLE wolverine_outgoing_envelopes (id {uuid} PRIMARY KEY, owner_id int NOT NULL, destination varchar(250) NOT NULL, deliver_by {time}, body {bytes} NOT NULL,
  attempts int DEFAULT 0, message_type varchar(250) NOT NULL);
CREATE TABLE [OutboxData] ([MessageId] varchar(200) PRIMARY KEY, [Dispatched] int NOT NULL DEFAULT 0, [DispatchedAt] {time}, [PersistenceVersion] varchar(23) NOT NULL,
  [Operations] json NOT NULL);
CREATE TABLE outbox (id {serial} PRIMARY KEY, topic varchar(255) NOT NULL, [key] varchar(255), value {bytes}, headers json, [partition] int, processed boolean DEFAULT false);
CREATE TABLE messenger_messages (id {serial} PRIMARY KEY, body {text} NOT NULL, headers {text} NOT NULL, queue_name varchar(190) NOT NULL, created_at {time} NOT NULL,
  available_at {time} NOT NULL, delivered_at {time});
CREATE TABLE [TXNO_OUTBOX] (id varchar(36) PRIMARY KEY, invocation {text}, [lastAttemptTime] {time}, [nextAttemptTime] {time}, attempts int, blocked varchar(250), version int,
  [uniqueRequestId] varchar(250) UNIQUE, processed boolean, topic varchar(250) NOT NULL DEFAULT '*', seq bigint);
CREATE TABLE tenant_events (tenant_id int, id int, token varchar(40) NOT NULL UNIQUE, type varchar(40) NOT NULL, data json, due {time} NOT NULL, PRIMARY KEY (tenant_id, id))`

// wildRows are written as their software does, with topics where it may have addresses.
const wildRows = `
INSERT INTO [OutboxMessage] ([SentTime], [Headers], [MessageId], [ContentType], [MessageType], [Body], [ExpirationTime])
  VALUES ('2026-01-02 03:04:05', '{}', '0198c0de-0000-7000-8000-000000000001', 'application/vnd.masstransit+json', 'urn:message:Ping', '{"message": {}}', '2026-02-02 03:04:05');
INSERT INTO wolverine_outgoing_envelopes VALUES ('0198c0de-0000-7000-8000-000000000003', 1, 'NAME.orders', NULL, 'by Kafka', 0, 'Ping');
INSERT INTO [OutboxData] VALUES ('m-1', 0, NULL, '8.0.0', '{"Headers": {}}');
INSERT INTO outbox (topic, [key], value) VALUES ('NAME.relayed', 'k', 'v');
INSERT INTO outbox (topic, [key], value) VALUES ('NAME.relayed', 'k', NULL);
INSERT INTO messenger_messages (body, headers, queue_name, created_at, available_at)
  VALUES ('{"id": 1}', '{"type": "Ping", "Content-Type": "application/json"}', 'default', '2026-01-02 03:04:05', '2026-01-02 04:04:05');
INSERT INTO [TXNO_OUTBOX] (id, invocation, [nextAttemptTime], attempts, version, processed, topic, seq) VALUES ('t-2', '{"m": "pong"}', '2026-02-02 03:04:05', 0, 0, false, 'NAME.orders', 1);
INSERT INTO tenant_events VALUES (1, 1, 'a', 'Ping', '{"n": 1}', '2026-02-02 03:04:05');
INSERT INTO tenant_events VALUES (2, 1, 'b', 'Ping', NULL, '2026-02-02 03:04:05')`

// Tables whose columns mislead: their records are right with what init writes.
func TestInitOfWildTables(t *testing.T) {
	t.Parallel()
	for _, database := range []string{"postgres", "mysql", "mariadb"} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			s := siteOn(t, database)
			types := strings.NewReplacer("{uuid}", "char(36)", "{time}", "datetime(6)", "{text}", "longtext", "{bytes}", "longblob", "{serial}", "bigint AUTO_INCREMENT", "[", "`", "]", "`")
			if database == "postgres" {
				types = strings.NewReplacer("{uuid}", "uuid", "{time}", "timestamp", "{text}", "text", "{bytes}", "bytea", "{serial}", "bigserial", "[", `"`, "]", `"`)
			}
			s.sql(strings.Split(types.Replace(wildTables), ";\n")...)
			s.config, s.env = "", []string{"DATABASE_URL=" + s.url(), "KAFKA_BROKER=" + kafka.Bootstrap()[0]}
			byTable := strings.Fields("OutboxMessage OutboxData messenger_messages tenant_events")
			s.init(append(byTable, "wolverine_outgoing_envelopes", "TXNO_OUTBOX", "outbox")...)
			s.passes()
			s.publishes("wild", strings.Split(strings.ReplaceAll(types.Replace(wildRows), "NAME", s.name), ";\n"), append(byTable, "orders", "relayed")...)
		})
	}
}

// What init writes for a table passes config validate, setup and check as it is, and rows as the table's own software writes them become
// records.
func TestInit(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]struct{ databases, tables string }{
		"a": {"postgres mysql mariadb", "outbox_events"}, "b": {"postgres", "outbox"}, "c": {"postgres", "orders_outbox billing_outbox users_outbox"},
		"d": {"postgres mysql mariadb", "outbox_event"}, "e": {"postgres", "outbox_event"}, "debezium": {"postgres mysql mariadb", "outboxevent"},
		"native": {"postgres mysql", "outbox"},
	} {
		for database := range strings.FieldsSeq(o.databases) {
			t.Run(name+"/"+database, func(t *testing.T) {
				t.Parallel()
				s, rows := siteOfTable(t, name, database)
				s.init(strings.Fields(o.tables)...)
				tables := tablesOf(s.config)
				golden(t, filepath.Join("init", name+"."+database+".yaml"), s.normal(tables))
				if name == "c" {
					inDocs(t, tables)
				}
				s.passes()
				switch name {
				case "debezium":
					s.publishes(name, rows, "Order")
				case "d":
					s.publishes(name, rows, "Order", "outbox_event")
				}
			})
		}
	}
}

// passes runs what must succeed with the configuration, again while a busy Kafka does not answer in time.
func (s *site) passes() {
	s.t.Helper()
	for _, command := range []string{"config validate", "setup", "check"} {
		eventually(s.t, func() error {
			if r := s.run(strings.Fields(command)...); r.code != 0 {
				return fmt.Errorf("%s: %s", command, r)
			}
			return nil
		})
	}
}

// inDocs verifies that docs/migrate-debezium.md shows the first table.
func inDocs(t *testing.T, tables string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/migrate-debezium.md")
	testenv.Must(t, err)
	first, _, _ := strings.Cut(tables, "  - name: public.billing_outbox")
	if !strings.Contains(string(page), "\ntables:\n"+first+"```") {
		t.Errorf("docs/migrate-debezium.md does not show\n%s", first)
	}
}

// tablesOf returns the part of a configuration that depends on the tables.
func tablesOf(config string) string {
	_, tables, _ := strings.Cut(config, "\ntables:\n")
	tables, _, _ = strings.Cut(tables, "\nkafka:\n")
	return tables
}

// siteOfTable creates a table with what its software does in it, and no configuration.
func siteOfTable(t *testing.T, name, database string) (s *site, rows []string) {
	t.Helper()
	s, id := siteOn(t, database), "char(36)"
	if database == "postgres" {
		id = "uuid"
	}
	switch name {
	case "native":
		s.says(0, "created", "setup")
	case "debezium":
		s.sql(fmt.Sprintf(debeziumTable, id, "json"))
		rows = []string{debeziumRow, debeziumEmpty}
	default:
		rows = s.table(name)["rows"]
	}
	s.config = ""
	s.env = []string{"DATABASE_URL=" + s.url(), "KAFKA_BROKER=" + kafka.Bootstrap()[0]}
	return s, rows
}

// url is the connection as its user.
func (s *site) url() string {
	if s.mysql != nil {
		return fmt.Sprintf("mysql://root@%s/%s", s.mysql.Addr(), s.name)
	}
	return s.pg.DSN(s.name, "")
}

// init takes the output of init for the configuration.
func (s *site) init(tables ...string) {
	s.t.Helper()
	args := []string{"init"}
	for _, table := range tables {
		args = append(args, "--table", table)
	}
	r := s.raw("", args...)
	if r.code != 0 || r.stderr != "" {
		s.t.Fatalf("init: %s", r)
	}
	s.config = r.stdout
}

// publishes runs the relay, and compares the records of the rows in these topics.
func (s *site) publishes(name string, rows []string, topics ...string) {
	s.t.Helper()
	s.config += "http: {listen: \"127.0.0.1:0\"}\nlog: {format: text}\n"
	s.replace(`"outbox.event.$`, `"`+s.name+`.$`).replace("partitions: 8", "partitions: 1") // others share Kafka
	left := s.relays(rows)
	var got []string
	for _, topic := range topics {
		records := s.consume(s.name+"."+topic, s.records(s.name+"."+topic))
		left -= len(records)
		for _, r := range records {
			line := text(r)
			if r.Key == nil {
				line = strings.Replace(line, `key ""`, "no key", 1)
			}
			got = append(got, line)
		}
	}
	if left != 0 {
		s.t.Errorf("%d records are in no topic", left)
	}
	all := strings.NewReplacer(s.name, "NAME", "/public.", "/").Replace(strings.Join(got, "\n"))
	golden(s.t, filepath.Join("init", name+".txt"), strings.ReplaceAll(all, `ce_id: "NAME.`, `ce_id: "`))
}

// A password is never written, and init says what it cannot look at.
func TestInitRefuses(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.sql("CREATE SCHEMA app", "CREATE TABLE app.outbox (id uuid PRIMARY KEY, topic text, created timestamp, body jsonb, doubled int GENERATED ALWAYS AS (1) STORED)",
		"CREATE VIEW events AS SELECT * FROM app.outbox", "CREATE TABLE parted (id int) PARTITION BY RANGE (id)", "CREATE TABLE part PARTITION OF parted DEFAULT",
		"CREATE TABLE nothing (payload json)", "CREATE TABLE bare (id uuid PRIMARY KEY)", `CREATE TABLE "Odd näme" ("yes" uuid, "a b" json)`)
	owner := strings.Replace(s.url(), "postgres@", "postgres:geheim-4711@", 1)
	s.env = []string{"CDC_RELAY_OWNER_DSN=" + owner, "RELAY_PASSWORD=geheim-4711", "KAFKA_BROKER=" + kafka.Bootstrap()[0]}
	var all strings.Builder
	for _, args := range [][]string{
		{"--table", "app.outbox"},
		{"--table", "public.Odd näme", "--table", "Odd näme", "-o", "new.yaml"},
		{"--table", "app.outbox", "-o", "new.yaml"},
		{"--table", "outbox"},
		{"--table", "events"},
		{"--table", "part"},
		{"--table", "nothing"},
		{"--table", "bare"},
		{"--table", "a.b.c"},
		{"--table", "x", "--owner-dsn", "oracle://geheim-4711@nowhere"},
		{"--table", "x", "--owner-dsn", "geheim-4711"},
		{"--table", "x", "--owner-dsn", "postgres://u:geheim-4711@127.0.0.1:1/x"},
		nil,
	} {
		r := s.run(append([]string{"init"}, args...)...)
		fmt.Fprintf(&all, "$ cdc-relay init %s\n%s\n", s.normal(strings.Join(args, " ")), r)
		if strings.Contains(r.String(), "geheim") {
			t.Errorf("init %q shows the password: %s", args, r)
		}
	}
	written, err := os.ReadFile(filepath.Join(s.dir, "new.yaml"))
	testenv.Must(t, err)
	all.WriteString("$ cat new.yaml\n" + s.normal(string(written)))
	golden(t, filepath.Join("init", "refused.txt"), all.String())
	s.config = string(written)
	s.passes()
	for database, dsn := range map[string]string{s.name: `dsn: "${env:DATABASE_URL}"`, "another": `dsn: "postgres://postgres@`} {
		s.env = []string{"CDC_RELAY_OWNER_DSN=" + owner, "DATABASE_URL=postgres://relay@localhost/" + database}
		s.says(0, dsn, "init", "--table", "app.outbox")
	}
	s.env = nil
	s.says(2, "no database is given. Fix: set DATABASE_URL", "init", "--table", "x")
}

func TestInitOnMySQL(t *testing.T) {
	t.Parallel()
	onMySQL(t, func(s *site) {
		s.sql("CREATE TABLE Outbox_Events (id int PRIMARY KEY, payload json)", "CREATE VIEW seen AS SELECT * FROM Outbox_Events",
			"CREATE TABLE `Odd näme` (`no` binary(16) PRIMARY KEY, body longblob, published bool)", "CREATE USER "+s.name+" IDENTIFIED BY 'geheim'",
			"GRANT SELECT ON "+s.name+".* TO "+s.name)
		s.config, s.env = "", []string{"CDC_RELAY_OWNER_DSN=" + fmt.Sprintf("%s:geheim@tcp(%s)/%s", s.name, s.mysql.Addr(), s.name)}
		s.says(2, "table NAME.outbox does not exist, or the user may not see it. Fix: correct the name, or connect as a user who may see it", "init", "--table", "outbox")
		s.says(2, "does not exist", "init", "--table", "outbox_events")
		s.says(0, `event_id: {template: "NAME.Outbox_Events-${id}"} # by name: consumers deduplicate by it; with the table's name before it`, "init", "--table", "Outbox_Events")
		s.says(2, "NAME.seen is not a table", "init", "--table", "seen")
		said := s.says(0, "password: \"${env:RELAY_PASSWORD}\"", "init", "--table", "Odd näme")
		for _, want := range []string{"dsn: \"NAME@tcp(HOST)/NAME\"", `name: "NAME.Odd näme"`, "event_id: \"no\" ", "payload: body ", "state of what published the rows before: published."} {
			if !strings.Contains(said, want) || strings.Contains(said, "geheim") {
				s.t.Errorf("no %s in\n%s", want, said)
			}
		}
	})
}
