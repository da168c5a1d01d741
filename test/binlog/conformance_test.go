package binlog

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cleanup"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/relay"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/test/conformance"
)

// conforming is a database for the tests that all databases share.
type conforming struct {
	*keeper

	begin cdc.Checkpoint
	table *mysql.Partitions
}

// conform runs a test on every kind of server.
func conform(t *testing.T, test func(c *conforming)) {
	t.Helper()
	onEach(t, func(d *database) {
		c := &conforming{keeper: keeping(d, 4)}
		c.Relayed()
		c.begin = c.saved
		test(c)
	})
}

func (c *conforming) Exec(statements ...string) { c.session(statements...) }

func (c *conforming) Hold(statements ...string) (end func(commit bool)) {
	ctx := c.t.Context()
	tx, err := c.db.BeginTx(ctx, nil)
	testenv.Must(c.t, err)
	for _, sql := range statements {
		if _, err := tx.ExecContext(ctx, sql); err != nil {
			c.t.Fatalf("%s: %v", sql, err)
		}
	}
	return func(commit bool) {
		finish := tx.Rollback
		if commit {
			finish = tx.Commit
		}
		testenv.Must(c.t, finish())
	}
}

func (c *conforming) Text(query string) (text string) {
	c.t.Helper()
	c.scan(query, &text)
	return text
}

func (c *conforming) Ago(days int) string {
	return fmt.Sprintf("UTC_TIMESTAMP(6) - INTERVAL %d DAY", days)
}

func (c *conforming) TimeType() string { return "DATETIME(6)" }

func (c *conforming) Rows(role string) (cleanup.Rows, error) {
	if role == "" {
		role = "root"
	}
	return c.rows(role, func(ctx context.Context) (cdc.Checkpoint, bool, error) {
		saved, found, err := c.load(ctx)
		saved.Source = cdc.Source{Database: c.name}
		return saved, found, err
	})
}

func (c *conforming) Insert(daysAgo, from, to int) {
	c.insertAt(daysAgo, from, to)
}

func (c *conforming) Numbers(table string) string { return c.held(table) }

// Partitions are of one connection, which keeps the lock.
func (c *conforming) Partitions() cleanup.Partitions {
	c.t.Helper()
	if c.table == nil {
		c.table = c.parts()
		testenv.Must(c.t, c.table.Maintainable(c.t.Context()))
	}
	return c.table
}

func (c *conforming) Save(saved cdc.Checkpoint) { c.saved = saved }

func (c *conforming) Relayed() { c.relayed() }

func (c *conforming) Restore(table string) { c.restored(table[strings.Index(table, ".")+1:]) }

func (c *conforming) Reader() tableread.Table {
	return c.reader(mysql.ReadOptions{
		Key: "event_id", At: "created_at", TakenOut: outbox.MySQLTakenOut(c.outbox()),
		Routine: outbox.MySQLRoutine(c.outbox()).MySQL(), Spare: outbox.MySQLSpare(c.outbox()).String(),
	})
}

func (c *conforming) ReaderOf(table string, o tableread.ReadOptions) tableread.Table {
	o.Table = table
	return c.reader(o)
}

func (c *conforming) Source() relay.Source {
	return c.database.source(binlog.Options{Options: mysql.Options{ID: c.flavor}}) // as that of the checkpoints
}

func (c *conforming) Begin() cdc.Resumer {
	return func(context.Context, cdc.Source) (cdc.Checkpoint, bool, error) { return c.begin, true, nil }
}

func (c *conforming) Free() {}

func (c *conforming) Cut() { c.endDumps() }

// A source continues exactly behind its position, in the same process and in the next.
//
//covers:binlogs 18 rows both
func TestResume(t *testing.T) {
	conform(t, func(c *conforming) { conformance.Resume(c.t, c) })
}

func TestReleasedBeforeReading(t *testing.T) {
	conform(t, func(c *conforming) { conformance.ReleasedBeforeReading(c.t, c) })
}

// The relay's role makes days ahead and takes out those past the TTL. They are dropped only once the position has passed
// every event in them. The relay publishes the events of what was taken out before it read them, and goes on.
//
//covers:binlogs 16 rows both
func TestPartitionIsDroppedOnceRelayed(t *testing.T) {
	conform(t, func(c *conforming) { conformance.PartitionIsDroppedOnceRelayed(c.t, c) })
}

// A transaction that wrote to a day keeps it from being taken out until it ends, and what it wrote is taken out with the day. A pass
// does not wait for it, so that no other writer waits behind the pass.
//
//covers:binlogs 16 state both
func TestPassGivesUpBehindAWriter(t *testing.T) {
	conform(t, func(c *conforming) { conformance.PassGivesUpBehindAWriter(c.t, c) })
}

// A dump restores what was taken out with its comment, in another transaction. Its position is of another server.
//
//covers:binlogs 16 state both
func TestRestoredPartitionIsKept(t *testing.T) {
	conform(t, func(c *conforming) { conformance.RestoredPartitionIsKept(c.t, c) })
}

func TestReadInOrderOfCreation(t *testing.T) {
	conform(t, func(c *conforming) {
		conformance.ReadInOrderOfCreation(c.t, c, func(id, key string, at time.Time) {
			c.exec("INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, occurred_at, created_at) VALUES (UNHEX(LPAD(?, 32, '0')), 'a', ?, 'e', ?, ?)", id, key, at, at)
		})
	})
}

func TestOldRowsAreDeletedByTheirKey(t *testing.T) {
	conform(t, func(c *conforming) {
		conformance.OldRowsAreDeletedByTheirKey(c.t, c, map[string][5]string{
			"BIGINT UNSIGNED":                        {"18446744073709551612", "18446744073709551613", "18446744073709551614", "18446744073709551615", "9"},
			"BIGINT":                                 {"-9223372036854775807", "9223372036854775805", "9223372036854775806", "9223372036854775807", "-9223372036854775808"},
			"DECIMAL(38,0)":                          {"12345678901234567890123456789012345671", "12345678901234567890123456789012345672", "12345678901234567890123456789012345673", "12345678901234567890123456789012345674", "0"},
			"BINARY(16)":                             {"X'FF000000000000000000000000000027'", "X'FF00000000000000000000000000005C'", "X'FF00000000000000000000000000FFFF'", "X'00000000000000000000000000000000'", "X'00000000000000000000000000000001'"},
			"VARCHAR(64) COLLATE utf8mb4_bin":        {`'a'`, `'A'`, `'é''"'`, `'e'`, `'E'`},
			"CHAR(36) CHARACTER SET latin1":          {`'0190c9a2-0000-7000-8000-000000000001'`, `'é'`, `'0190c9a2-0000-7000-8000-000000000002'`, `'0190c9a2-0000-7000-8000-000000000003'`, `'x'`},
			"VARBINARY(20)":                          {"'a'", "'b'", "'c'", "''", "'A'"},
			"VARCHAR(64) COLLATE utf8mb4_general_ci": {"'x'", "'y'", `'\\'`, "'z'", "'w'"},
		})
	})
}

func TestOldRowsThatCannotBeDeleted(t *testing.T) {
	conform(t, func(c *conforming) {
		conformance.OldRowsThatCannotBeDeleted(c.t, c, []conformance.Refused{
			{SQL: "CREATE TABLE events (id BIGINT, at DATETIME, KEY (id))", Want: "create a unique index"},
			{SQL: "CREATE TABLE events (id VARCHAR(50), at DATETIME, UNIQUE (id(3)))", Want: "create a unique index"},
			{SQL: "CREATE TABLE events (id BIGINT, at DATETIME, UNIQUE (id, at))", Want: "create a unique index"},
			{SQL: "CREATE TABLE events (id BIGINT PRIMARY KEY, at BIGINT)", Want: "map created_at"},
			{SQL: "CREATE TABLE events (id BIGINT PRIMARY KEY, at DATETIME) PARTITION BY HASH (id) PARTITIONS 2", Want: "has partitions, which are dropped as a whole"},
			{SQL: "CREATE TABLE events (id BIGINT PRIMARY KEY, at TIMESTAMP); GRANT SELECT ON events TO " + c.user, Role: c.user, Want: "run GRANT SELECT, DELETE ON `" + c.name + "`.`events` TO `" + c.user + "`@`%`"},
			{SQL: "CREATE TABLE events (id BIGINT PRIMARY KEY, at TIMESTAMP); GRANT SELECT, DELETE ON events TO " + c.user, Role: c.user},
		})
	})
}

func TestOldRowsThatTheDatabaseKeeps(t *testing.T) {
	conform(t, func(c *conforming) {
		const held = "a transaction held a lock on it, or on a table that a foreign key connects with it"
		conformance.OldRowsThatTheDatabaseKeeps(c.t, c, map[string]conformance.Kept{
			"NULL": {
				SQL: []string{"UPDATE events SET id = NULL WHERE id IN (3, 70)"}, Left: 2,
			},
			"foreign key": {
				SQL: []string{"CREATE TABLE note (event INT, FOREIGN KEY (event) REFERENCES events (id))", "INSERT INTO note VALUES (3), (70)"}, Left: 2,
				Want: []string{"old rows not deleted: 2 rows, that of event 3 among them: ", "`" + c.name + "`.`note`, CONSTRAINT", "remove that foreign key"},
			},
			"trigger": {
				SQL:  []string{"CREATE TRIGGER keeper BEFORE DELETE ON events FOR EACH ROW IF OLD.id > 290 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'wanted'; END IF"},
				Left: 10, Want: []string{"old rows not deleted: 10 rows, that of event 291 among them: ", `a trigger ON DELETE says "wanted"`, "Fix: change the trigger"},
			},
			"trigger with a number of its own": {
				SQL:  []string{"CREATE TRIGGER keeper BEFORE DELETE ON events FOR EACH ROW IF OLD.id > 290 THEN SIGNAL SQLSTATE '45001' SET MESSAGE_TEXT = 'wanted', MYSQL_ERRNO = 9999; END IF"},
				Left: 10, Want: []string{"old rows not deleted: 10 rows, that of event 291 among them: ", `a trigger ON DELETE says "wanted"`},
			},
			"locked": {
				Hold: []string{"SELECT * FROM events WHERE id = 1 FOR UPDATE"}, Left: 300,
				Want: []string{"table " + c.name + ".events: delete old rows: a lock is not free: ", held, "which information_schema.innodb_trx shows"},
			},
			"another table that is locked": {
				SQL:  []string{"CREATE TABLE note (event INT, FOREIGN KEY (event) REFERENCES events (id))", "INSERT INTO note VALUES (1)"},
				Hold: []string{"SELECT * FROM note FOR UPDATE"}, Left: 300,
				Want: []string{"a lock is not free: ", held},
			},
		})
	})
}
