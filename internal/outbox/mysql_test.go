package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"

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
			root := openMySQL(t, server.DSN("", ""))
			t.Run("table", func(t *testing.T) { testMySQLTable(t, root) })
			t.Run("partitions", func(t *testing.T) { testMySQLPartitions(t, root) })
			t.Run("odd names", func(t *testing.T) { testMySQLOddNames(t, root, flavor) })
			if flavor == cdc.MySQL {
				t.Run("gtid_mode", func(t *testing.T) { testMySQLGTIDMode(t, root) })
			}
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

// maintainMySQL takes the first day out and leaves it there.
func maintainMySQL(t *testing.T, root *sql.Conn, table outbox.Name) {
	t.Helper()
	execMySQL(t, root, "INSERT INTO "+table.MySQL()+" (event_id, aggregate_type, aggregate_id, event_type, occurred_at, created_at) "+
		"VALUES (X'01', 'Order', '1', 'placed', UTC_TIMESTAMP(6), '2026-01-02 10:00')")
	_, err := root.ExecContext(t.Context(), "DO GET_LOCK(?, 0)", outbox.MySQLPartitionLock(table))
	testenv.Must(t, err)
	for _, step := range []string{"finish", "spare", "flat", "exchange", "finish", "make"} {
		part := outbox.MySQLPartition(day())
		if step == "make" {
			part = "p20260401"
		}
		if _, err := root.ExecContext(t.Context(), "CALL "+outbox.MySQLRoutine(table).MySQL()+"(?, ?)", step, part); err != nil {
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
		maintainMySQL(t, root, table)
		for _, step := range outbox.MySQLTeardown([]outbox.Name{table}, []outbox.Name{table}) {
			applyMySQL(t, root, step.Statements)
		}
	}
	if got := queryMySQL(t, root, "SELECT count(*) FROM information_schema.tables WHERE table_schema LIKE 'My%own%'"); got != "0" {
		t.Errorf("%s tables are left", got)
	}
}

// testMySQLGTIDMode turns gtid_mode on, one mode after the other.
func testMySQLGTIDMode(t *testing.T, root *sql.Conn) {
	t.Helper()
	execMySQL(t, root, "SET GLOBAL gtid_mode = ON_PERMISSIVE", "SET GLOBAL gtid_mode = OFF_PERMISSIVE", "SET GLOBAL gtid_mode = OFF")
	applyMySQL(t, root, changing(cdc.MySQL, []mysql.Setting{{Name: "gtid_mode", Has: "OFF", Want: "ON"}}))
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
	testenv.Must(t, err)
	conn, err := db.Conn(t.Context())
	testenv.Must(t, err)
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
		"shop.outbox": "`shop`.`outbox`", "outbox": "`app`.`outbox`", `Ände rung."x"`: "`Ände rung`.`\"x\"`",
		"a.b.c": "more than two parts", "": "empty part", "a.": "empty part", "`order`": "has backticks",
		strings.Repeat("ö", 65): "more than 64 characters", "app.a ": "a part that ends with a space", "a\x00": "zero byte",
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
}
