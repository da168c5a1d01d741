package writer_test

import (
	"cmp"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"

	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
)

// mysql is a MySQL or MariaDB server.
type mysql struct{ *testenv.MySQLServer }

func (m mysql) String() string { return m.Flavor + " " + m.Version }

func (m mysql) dialect() writer.Dialect {
	if m.Flavor == testenv.MariaDBFlavor {
		return writer.MariaDB
	}
	return writer.MySQL
}

func (m mysql) look(database string) (*sql.DB, error) { return sql.Open("mysql", m.DSN(database, "")) }

// script adds an auto-increment column, because InnoDB stores rows in key order.
func (m mysql) script(o outbox.TableOptions) []outbox.Statement {
	statements := outbox.MySQLTable(o).Up
	if o.Name.Schema != "" {
		statements = append([]outbox.Statement{{SQL: "CREATE DATABASE IF NOT EXISTS " + outbox.QuoteMySQL(o.Name.Schema)}}, statements...)
	}
	if o.Partition == outbox.PartitionNone {
		statements = append(statements, outbox.Statement{SQL: "ALTER TABLE " + o.Name.MySQL() + " ADD COLUMN seq BIGINT NOT NULL AUTO_INCREMENT UNIQUE"})
	}
	return statements
}

func (m mysql) speech() speech {
	conflicts := map[string]conflict{"a lock that is not free in time": {[]string{"SET SESSION innodb_lock_wait_timeout = 1"}, false}}
	if m.dialect() == writer.MariaDB {
		conflicts["changed since the snapshot"] = conflict{[]string{"SET SESSION innodb_snapshot_isolation = ON"}, true}
	}
	return speech{
		conflicts: conflicts,
		clear:     "DELETE FROM ",
		rows: `SELECT LOWER(HEX(event_id)), aggregate_type, aggregate_id, event_type, tenant_id, topic, partition_key, content_type,
	schema_id, CAST(schema_version AS CHAR), headers, %s,
	TIMESTAMPDIFF(MICROSECOND, '1970-01-01', occurred_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', created_at) DIV 1000,
	created_at BETWEEN UTC_TIMESTAMP(6) - INTERVAL 5 MINUTE AND UTC_TIMESTAMP(6)
FROM %s ORDER BY seq`,
		payload:     "LOWER(HEX(payload))",
		textPayload: "CAST(payload AS CHAR)",
		hang:        []string{"CREATE TRIGGER hang BEFORE INSERT ON outbox FOR EACH ROW SET @hang = SLEEP(600)"},
		deadlock: []string{`CREATE TRIGGER deadlock BEFORE INSERT ON purchases FOR EACH ROW
	IF NEW.total = 13 THEN SET @victims = COALESCE(@victims, 0) + 1; IF @victims % 2 = 1 THEN SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213; END IF; END IF`},
		hanging: "SELECT MAX(id) FROM information_schema.processlist WHERE db = DATABASE() AND state = 'User sleep' AND id > ?",
	}
}

func (m mysql) partition(at time.Time) string {
	if at.IsZero() {
		return "outbox PARTITION (" + outbox.MySQLMaxPartition + ")"
	}
	return "outbox PARTITION (" + outbox.MySQLPartition(at) + ")"
}

// ways are the driver settings that change how arguments are sent and how affected rows are counted.
func (m mysql) ways() []way {
	var all []way
	for _, params := range []string{
		"", "interpolateParams=true", "parseTime=true&loc=Asia%2FKolkata&clientFoundRows=true",
		"interpolateParams=true&parseTime=true&loc=America%2FNew_York&collation=utf8mb4_general_ci",
	} {
		all = append(all, m.way(params))
	}
	return all
}

func (m mysql) way(params string) way {
	return way{"sql/mysql?" + params, func(tb testing.TB, dsn string, opts ...writer.Option) session {
		return openSQL(tb, m.dialect(), "mysql", dsn, opts)
	}, func(database, user string) string { return m.UserDSN(cmp.Or(user, "root"), "", database, params) }}
}

// onBoth runs a test on MySQL and on MariaDB.
func onBoth(t *testing.T, test func(t *testing.T, m mysql)) {
	t.Helper()
	for _, m := range []mysql{my, maria, maria11} {
		t.Run(m.String(), func(t *testing.T) { test(t, m) })
	}
}

// Times, bytes and quotes are sent in a form that does not depend on session settings.
func TestMySQLSessionSettingsDoNotMatter(t *testing.T) {
	onBoth(t, func(t *testing.T, m mysql) {
		mode, err := m.Value(t.Context(), "SELECT @@global.sql_mode")
		testenv.Must(t, err)
		db := newDatabase(t, m, plain("outbox"))
		defer db.exec(t, "SET GLOBAL time_zone = DEFAULT", "SET GLOBAL sql_mode = '"+mode+"'")
		for _, modes := range []string{"", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,NO_ZERO_DATE,NO_ZERO_IN_DATE,STRICT_ALL_TABLES,PAD_CHAR_TO_FULL_LENGTH"} {
			db.exec(t, "SET GLOBAL time_zone = '+05:30'", "SET GLOBAL sql_mode = '"+modes+"'")
			storesAwkwardEvents(t, db)
		}
	})
}

// Texts of 255 four-byte characters are stored, and longer ones refused, because the server may truncate them without an
// error.
func TestMySQLStoresLongTexts(t *testing.T) {
	onBoth(t, func(t *testing.T, m mysql) {
		db := newDatabase(t, m, plain("outbox"))
		for _, w := range m.ways() {
			db.clear(t, "outbox")
			session, long := w.open(t, db.name, ""), strings.Repeat("\U0001F600", outbox.MySQLTextLength)
			e := newEvent(0)
			e.AggregateType, e.AggregateID, e.Type, e.TenantID, e.Topic, e.PartitionKey, e.ContentType, e.SchemaID = long, long, long, long, long, long, long, long
			appendAll(t, session, e)
			tx := session.begin(t)
			testenv.Must(t, tx.Exec(t.Context(), "SET sql_mode = ''"))
			tooLong := newEvent(1)
			tooLong.TenantID = long + "x"
			if err := tx.Append(t.Context(), newEvent(2), tooLong); !errors.Is(err, writer.ErrInvalidEvent) {
				t.Errorf("%s: %v", w.name, err)
			}
			_ = tx.Rollback(t.Context())
			requireRows(t, db.rows(t, "outbox"), []*writer.Event{e})
		}
	})
}

func TestMySQLTableNames(t *testing.T) {
	onBoth(t, func(t *testing.T, m mysql) {
		db := newDatabase(t, m, plain("outbox"), plain("Out box"), plain("out`box"), plain("app.v1.outbox"))
		storesInTables(t, db, map[string]string{
			"outbox": "outbox", "out`box": "`out``box`", "Out box": "`Out box`", db.name + ".outbox": db.name + ".outbox", "app.`v1.outbox`": "app.`v1.outbox`",
		})
	})
}

// A skipped duplicate must not be logged, because the relay would publish it again.
func TestMySQLSkippedDuplicatesStayOutOfTheBinlog(t *testing.T) {
	onBoth(t, func(t *testing.T, m mysql) {
		db := newDatabase(t, m, daily("outbox"))
		for _, w := range m.ways() {
			session := w.open(t, db.name, "", writer.WithOnDuplicate(writer.SkipDuplicate))
			events := newEvents(3)
			appendAll(t, session, events...)
			before := position(t, db)
			appendAll(t, session, events...)
			appendAll(t, session, events[0])
			if after := position(t, db); after != before {
				t.Errorf("%s: the binlog advanced from %s to %s", w.name, before, after)
			}
		}
	})
}

// position returns the GTID set of the binlog.
func position(t *testing.T, db *database) (set string) {
	t.Helper()
	query := "SELECT @@global.gtid_executed"
	if db.engine.(mysql).Flavor == testenv.MariaDBFlavor {
		query = "SELECT @@global.gtid_binlog_pos"
	}
	testenv.Must(t, db.conn.QueryRowContext(t.Context(), query).Scan(&set))
	if set == "" {
		t.Fatal("there is no binlog")
	}
	return set
}
