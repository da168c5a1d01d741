package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// TestMySQL runs all generated SQL for MySQL and MariaDB.
func TestMySQL(t *testing.T) {
	for _, flavor := range []cdc.Flavor{cdc.MySQL, cdc.MariaDB} {
		t.Run(string(flavor), func(t *testing.T) {
			server := testenv.MySQL(t, testenv.MySQLOptions{Flavor: string(flavor)})
			dsn := func(user string) string { return server.UserDSN(user, "", "", "") }
			root := openMySQL(t, dsn("root"))
			t.Run("table", func(t *testing.T) { testMySQLTable(t, root) })
			t.Run("partitions", func(t *testing.T) { testMySQLPartitions(t, root) })
			t.Run("setup", func(t *testing.T) { testMySQLSetup(t, root, flavor, dsn) })
			t.Run("odd names", func(t *testing.T) { testMySQLOddNames(t, root, flavor) })
			t.Run("settings", func(t *testing.T) { testMySQLSettings(t, root, flavor) })
		})
	}
}

// testMySQLTable creates every kind of table twice and drops it.
func testMySQLTable(t *testing.T, root *sql.Conn) {
	t.Helper()
	execMySQL(t, root, "CREATE DATABASE kinds CHARACTER SET latin1", "USE kinds")
	for payload, column := range map[outbox.PayloadType]string{"": "longblob", outbox.PayloadText: "longtext", outbox.PayloadJSONB: "json longtext"} {
		for _, partition := range []outbox.Partition{outbox.PartitionDaily, outbox.PartitionNone} {
			for _, schema := range []string{"", "kinds"} {
				name := outbox.Name{Schema: schema, Table: fmt.Sprintf("outbox_%s_%s", payload, partition)}
				s := outbox.MySQLTable(outbox.TableOptions{Name: name, Payload: payload, Partition: partition, From: day(), Ahead: 2})
				applyMySQL(t, root, s.Up)
				applyMySQL(t, root, s.Up)
				execMySQL(t, root, "INSERT INTO "+name.MySQL()+" (event_id, aggregate_type, aggregate_id, event_type, payload, occurred_at) "+
					"VALUES (X'000102030405060708090a0b0c0d0e00', 'Order', '\U0001F600', 'placed', '{}', UTC_TIMESTAMP(6))")
				got := queryMySQL(t, root, "SELECT CONCAT(HEX(event_id), content_type, HEX(aggregate_id), ABS(TIMESTAMPDIFF(SECOND, created_at, UTC_TIMESTAMP())) < 60) FROM "+name.MySQL())
				if got != "000102030405060708090A0B0C0D0E00application/jsonF09F98801" {
					t.Errorf("%s: %s", name, got)
				}
				got = queryMySQL(t, root, "SELECT data_type FROM information_schema.columns WHERE table_schema = 'kinds' AND column_name = 'payload'")
				if !strings.Contains(column, got) {
					t.Errorf("%s: payload is %s", name, got)
				}
				applyMySQL(t, root, s.Down)
			}
		}
	}
	if got := queryMySQL(t, root, "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'kinds'"); got != "0" {
		t.Errorf("%s tables are left", got)
	}
}

// testMySQLPartitions checks which partition rows are in.
func testMySQLPartitions(t *testing.T, root *sql.Conn) {
	t.Helper()
	execMySQL(t, root, "CREATE DATABASE parts", "USE parts", "SET time_zone = '-08:00'")
	from := time.Date(2026, 3, 7, 1, 0, 0, 0, time.UTC)
	s := outbox.MySQLTable(outbox.TableOptions{Name: outbox.Name{Schema: "parts", Table: "outbox"}, From: from, Ahead: 2})
	applyMySQL(t, root, s.Up)
	applyMySQL(t, root, s.Up)
	for at, want := range map[string]string{
		"2026-03-01 00:00:00":        "p20260307",
		"2026-03-07 23:59:59.999999": "p20260307",
		"2026-03-08 00:00:00":        "p20260308",
		"2026-03-09 23:59:59.999999": "p20260309",
		"2026-03-10 00:00:00":        outbox.MySQLMaxPartition,
	} {
		execMySQL(t, root, insertMySQL(at))
		if got := queryMySQL(t, root, "SELECT count(*) FROM outbox PARTITION ("+want+") WHERE created_at = '"+at+"'"); got != "1" {
			t.Errorf("%s is not in %s", at, want)
		}
		if _, err := root.ExecContext(t.Context(), insertMySQL(at)); err == nil {
			t.Errorf("a second time at %s", at)
		}
	}
}

func insertMySQL(createdAt string) string {
	return fmt.Sprintf("INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, occurred_at, created_at) "+
		"VALUES (UNHEX(LEFT(SHA2('%[1]s', 256), 32)), 'Order', '1', 'placed', UTC_TIMESTAMP(6), '%[1]s')", createdAt)
}

// testMySQLSetup runs each step twice, as the user that must run it. The relay's user can then read the table and the
// binlog's position, and no more. The teardown leaves no table.
func testMySQLSetup(t *testing.T, root *sql.Conn, flavor cdc.Flavor, dsn func(string) string) {
	t.Helper()
	execMySQL(t, root, "DROP USER IF EXISTS ``@localhost", "CREATE DATABASE shop", "CREATE USER owner@`%`", "GRANT SELECT, INSERT, CREATE, ALTER, DROP, CREATE ROUTINE, ALTER ROUTINE ON shop.* TO owner@`%`", "CREATE USER relay@`%`")
	table := outbox.Name{Schema: "shop", Table: "outbox"}
	steps := outbox.MySQLSetup(outbox.SetupOptions{
		Flavor: flavor, Make: []outbox.TableOptions{{Name: table, From: day(), Ahead: 1}}, Read: []outbox.Name{table}, Role: "relay",
		Maintain: []outbox.Name{table},
	})
	runners := map[outbox.Runner]*sql.Conn{outbox.RunnerMySQLAdmin: root, outbox.RunnerMySQLOwner: openMySQL(t, dsn("owner"))}
	for range 2 {
		for _, step := range steps {
			applyMySQL(t, runners[step.Runner], step.Statements)
		}
	}
	relay := openMySQL(t, dsn("relay"))
	status := "SHOW BINARY LOG STATUS"
	if flavor == cdc.MariaDB {
		status = "SHOW MASTER STATUS"
	}
	execMySQL(t, relay, "SELECT * FROM shop.outbox", "SHOW BINARY LOGS", status, "SHOW REPLICA STATUS")
	if _, err := relay.ExecContext(t.Context(), "DELETE FROM shop.outbox"); err == nil {
		t.Error("the relay's user may delete")
	}
	maintainMySQL(t, root, relay, table)
	teardown := outbox.MySQLTeardown([]outbox.Name{table}, []outbox.Name{table})
	for _, step := range append(teardown, teardown...) {
		applyMySQL(t, runners[step.Runner], step.Statements)
	}
	if got := queryMySQL(t, root, "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'shop'"); got != "0" {
		t.Errorf("%s tables are left", got)
	}
	if got := queryMySQL(t, root, "SELECT count(*) FROM information_schema.routines WHERE routine_schema = 'shop'"); got != "0" {
		t.Errorf("%s procedures are left", got)
	}
	if outbox.MySQLTeardown(nil, nil) != nil {
		t.Error("a teardown of nothing has steps")
	}
}

// maintainMySQL takes the first day out, as the relay's user, and leaves it there.
func maintainMySQL(t *testing.T, root, relay *sql.Conn, table outbox.Name) {
	t.Helper()
	execMySQL(t, root, "INSERT INTO "+table.MySQL()+" (event_id, aggregate_type, aggregate_id, event_type, occurred_at, created_at) "+
		"VALUES (X'01', 'Order', '1', 'placed', UTC_TIMESTAMP(6), '2026-01-02 10:00')")
	_, err := relay.ExecContext(t.Context(), "DO GET_LOCK(?, 0)", outbox.MySQLPartitionLock(table))
	must(t, err)
	for _, step := range []string{"finish", "spare", "flat", "exchange", "finish", "make"} {
		part := outbox.MySQLPartition(day())
		if step == "make" {
			part = "p20260401"
		}
		if _, err := relay.ExecContext(t.Context(), "CALL "+outbox.MySQLRoutine(table).MySQL()+"(?, ?)", step, part); err != nil {
			t.Fatalf("%s: %s: %v", table, step, err)
		}
	}
	name := queryMySQL(t, root, outbox.MySQLTakenOut(table))
	taken := outbox.Name{Schema: table.Schema, Table: strings.TrimPrefix(name, table.Schema+".")}
	if got := queryMySQL(t, root, "SELECT HEX(event_id) FROM "+taken.MySQL()); got != "01" {
		t.Errorf("%s holds %s", name, got)
	}
	if got := queryMySQL(t, root, "SELECT count(*) FROM "+table.MySQL()); got != "0" {
		t.Errorf("%s still holds %s rows", table, got)
	}
}

// testMySQLOddNames runs all generated SQL with names that must be quoted, with and without NO_BACKSLASH_ESCAPES.
func testMySQLOddNames(t *testing.T, root *sql.Conn, flavor cdc.Flavor) {
	t.Helper()
	schema, user := "My `own` 'x'", "Re`lay'@x"
	execMySQL(t, root, "CREATE DATABASE "+outbox.QuoteMySQL(schema), "CREATE USER "+outbox.QuoteMySQL(user)+"@localhost")
	tables := []outbox.Name{{schema, "order"}, {schema, `100% it's\`}, {schema, strings.Repeat("ö", 64)}}
	options := outbox.SetupOptions{Flavor: flavor, Read: tables, Maintain: tables, Role: user + "@localhost"}
	for _, name := range tables {
		options.Make = append(options.Make, outbox.TableOptions{Name: name, From: day(), Ahead: 1})
	}
	for _, mode := range []string{"", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES"} {
		execMySQL(t, root, "SET sql_mode = '"+mode+"'")
		for _, name := range tables {
			execMySQL(t, root, "DROP TABLE IF EXISTS "+name.MySQL())
		}
		for _, step := range outbox.MySQLSetup(options) {
			applyMySQL(t, root, step.Statements)
		}
	}
	if got := queryMySQL(t, root, "SELECT count(*) FROM information_schema.partitions WHERE partition_name = 'p20260103'"); got != "3" {
		t.Errorf("%s tables have the last partition", got)
	}
	for _, table := range tables {
		maintainMySQL(t, root, root, table)
		for _, step := range outbox.MySQLTeardown([]outbox.Name{table}, []outbox.Name{table}) {
			applyMySQL(t, root, step.Statements)
		}
	}
	if got := queryMySQL(t, root, "SELECT count(*) FROM information_schema.tables WHERE table_schema LIKE 'My%own%'"); got != "0" {
		t.Errorf("%s tables are left", got)
	}
}

// testMySQLSettings sets what check requires.
func testMySQLSettings(t *testing.T, root *sql.Conn, flavor cdc.Flavor) {
	t.Helper()
	settings := []mysql.Setting{
		{Name: "log_bin", Want: "binlog"},
		{Name: "binlog_format", Want: "ROW"},
		{Name: "binlog_row_image", Want: "FULL"},
		{Name: "binlog_row_metadata", Want: "FULL"},
		{Name: "sync_binlog", Want: "1"},
		{Name: "innodb_flush_log_at_trx_commit", Want: "1"},
	}
	execMySQL(t, root, "SET GLOBAL sync_binlog = 0", "SET GLOBAL binlog_row_metadata = MINIMAL")
	applyMySQL(t, root, changing(flavor, settings))
	if got := queryMySQL(t, root, "SELECT CONCAT(@@global.sync_binlog, @@global.binlog_row_metadata)"); got != "1FULL" {
		t.Errorf("sync_binlog and binlog_row_metadata are %s", got)
	}
	if flavor != cdc.MySQL {
		return
	}
	execMySQL(t, root, "SET GLOBAL gtid_mode = ON_PERMISSIVE", "SET GLOBAL gtid_mode = OFF_PERMISSIVE", "SET GLOBAL gtid_mode = OFF")
	applyMySQL(t, root, changing(flavor, []mysql.Setting{{Name: "gtid_mode", Has: "OFF", Want: "ON"}}))
	if got := queryMySQL(t, root, "SELECT @@global.gtid_mode"); got != "ON" {
		t.Errorf("gtid_mode is %s", got)
	}
}

func applyMySQL(t *testing.T, conn *sql.Conn, statements []outbox.Statement) {
	t.Helper()
	for _, s := range statements {
		execMySQL(t, conn, s.SQL)
	}
}

func openMySQL(t *testing.T, dsn string) *sql.Conn {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	must(t, err)
	conn, err := db.Conn(t.Context())
	must(t, err)
	t.Cleanup(func() { _, _ = conn.Close(), db.Close() })
	return conn
}

func execMySQL(t *testing.T, conn *sql.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := conn.ExecContext(context.WithoutCancel(t.Context()), s); err != nil {
			t.Fatalf("%v in\n%s", err, s)
		}
	}
}

func queryMySQL(t *testing.T, conn *sql.Conn, query string) (value string) {
	t.Helper()
	if err := conn.QueryRowContext(t.Context(), query).Scan(&value); err != nil {
		t.Fatalf("%v in\n%s", err, query)
	}
	return value
}

func TestParseMySQLName(t *testing.T) {
	for in, want := range map[string]string{
		"shop.outbox": "`shop`.`outbox`", "outbox": "`app`.`outbox`", "`a.b`.`c``d`": "`a.b`.`c``d`", `"x"`: "`app`.`\"x\"`",
		"a.b.c": "more than two parts", "": "empty part", "a.": "empty part", "`a": "closing quote", "`a`b": "continues after a closing quote",
		strings.Repeat("ö", 65): "more than 64 characters", "app.`a `": "a part that ends with a space", "a\x00": "zero byte",
	} {
		n, err := outbox.ParseMySQLName(in, "app")
		switch {
		case err == nil && n.MySQL() != want, err != nil && !strings.Contains(err.Error(), want):
			t.Errorf("%q: %s, %v, want %s", in, n.MySQL(), err, want)
		}
	}
	if n, err := outbox.ParseMySQLName("outbox", ""); err != nil || n.MySQL() != "`outbox`" || n.String() != "outbox" {
		t.Errorf("without a database: %+v, %v", n, err)
	}
	part := rapid.StringMatching("[a-z_\"$. A-Z0-9äß`]{1,20}x")
	rapid.Check(t, func(t *rapid.T) {
		n := outbox.Name{Schema: part.Draw(t, "schema"), Table: part.Draw(t, "table")}
		if got, err := outbox.ParseMySQLName(n.MySQL(), ""); err != nil || got != n {
			t.Fatalf("%+v is %s and reads back as %+v, %v", n, n.MySQL(), got, err)
		}
	})
}
