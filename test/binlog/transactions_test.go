package binlog

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/test/conformance"
)

// simple creates a table with a number in each row.
func (d *database) simple() {
	d.t.Helper()
	d.exec("CREATE TABLE outbox (n INT NOT NULL, pad LONGBLOB)")
}

func insert(numbers ...int) string {
	values := make([]string, len(numbers))
	for i, n := range numbers {
		values[i] = fmt.Sprintf("(%d, NULL)", n)
	}
	return "INSERT INTO outbox VALUES " + strings.Join(values, ", ")
}

func current() binlog.Options { return binlog.Options{FromNow: true} }

// Committed rows arrive in commit order. Rolled-back rows do not, even if they are in the binlog because the transaction
// also changed a non-transactional table, or because of a savepoint.
//
//covers:binlogs 17 rows both
func TestTransactions(t *testing.T) {
	onEvery(t, func(d *database) {
		t := d.t
		d.simple()
		d.exec("CREATE TABLE other (n INT) ENGINE = InnoDB; CREATE TABLE plain (n INT) ENGINE = MyISAM")
		r := start(t, d.source(current()), none)
		d.session("SET SESSION sql_log_bin = 1", insert(1))
		d.session("BEGIN", insert(2), insert(3, 4), "INSERT INTO other VALUES (1)", insert(5), "COMMIT")
		d.session("BEGIN", insert(100), "ROLLBACK")
		mixed := "plain" // MySQL refuses to mix engines under GTIDs
		if d.flavor == "mysql" {
			mixed = "other"
		}
		d.session("BEGIN", insert(101), "INSERT INTO "+mixed+" VALUES (1)", "ROLLBACK")
		d.session("BEGIN", insert(106), "CREATE TEMPORARY TABLE t (n INT)", "/* MariaDB logs both */ rollback work")
		d.session("BEGIN", insert(6), "SAVEPOINT a", insert(102), "ROLLBACK TO SAVEPOINT a", insert(7), "COMMIT")
		d.session("BEGIN", "INSERT INTO "+mixed+" VALUES (2)", insert(8), "SAVEPOINT `a b`", insert(103), "INSERT INTO "+mixed+" VALUES (3)",
			"SAVEPOINT inner_one", insert(104), "/* x */ rollback work to savepoint `A B`", insert(9), "COMMIT")
		d.session("BEGIN", "SAVEPOINT a", insert(105), "INSERT INTO "+mixed+" VALUES (3)", "ROLLBACK TO a", "COMMIT")
		d.session("UPDATE outbox SET n = n + 1000 WHERE n = 1", "DELETE FROM outbox WHERE n = 2", "REPLACE INTO other VALUES (3)")
		d.session("CREATE TABLE later (n INT)", "ALTER TABLE outbox ADD COLUMN more INT", "INSERT INTO outbox (n, more) VALUES (10, 1)")
		d.session("ALTER TABLE outbox DROP COLUMN more", insert(11))
		d.session("CREATE TABLE copied SELECT n FROM outbox", "TRUNCATE plain", "DROP TABLE later")
		d.session("XA START 'x'", "INSERT INTO other VALUES (9)", "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'")
		d.session("XA START 'y'", "INSERT INTO other VALUES (9)", "XA END 'y'", "XA COMMIT 'y' ONE PHASE", insert(12))
		r.Expect(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
	})
}

// Transactions of other tables advance the position.
//
//covers:binlogs 8 state both
func TestIdleOutbox(t *testing.T) {
	onEach(t, func(d *database) {
		t := d.t
		d.simple()
		d.exec("CREATE TABLE other (n INT)")
		r := start(t, d.source(current()), none)
		for range 5 {
			d.exec("INSERT INTO other VALUES (1)")
		}
		want := d.position()
		for string(r.Progress().Position) != want {
			select {
			case <-r.Changed:
			case <-time.After(patience):
				t.Fatalf("position is %s, want %s", r.Progress().Position, want)
			}
		}
	})
}

// While a batch is in flight, a heartbeat cannot advance the position. None is passed on, because they would accumulate in
// memory while Kafka is unavailable.
//
//covers:binlogs 9 rows both
func TestNoHeartbeatWhileABatchIsInFlight(t *testing.T) {
	onEach(t, func(d *database) {
		t := d.t
		d.simple()
		d.exec("CREATE TABLE other (n INT)")
		s, q := d.source(current()), newQueue(t)
		q.Confirm = func(uint64) {}
		r := conformance.Start(t, s, q, none)
		d.session(insert(1))
		r.Expect(1)
		for range 20 {
			d.exec("INSERT INTO other VALUES (1)")
		}
		written := time.Now()
		until(t, func() bool { return s.Status().LastTick.Sub(written) > 2*time.Second })
		d.session(insert(2)) // read after the transactions of the other table
		r.Expect(1, 2)
		if seq := r.Last(); seq != 2 {
			t.Errorf("%d batches, want the two with rows", seq)
		}
		for range 20 {
			d.exec("INSERT INTO other VALUES (1)")
		}
		want := d.position()
		s.Confirm(2)
		until(t, func() bool { return string(r.Progress().Position) == want })
	})
}

// A relay that reads transactions of other tables reports its lag.
func TestLag(t *testing.T) {
	onEach(t, func(d *database) {
		t := d.t
		d.simple()
		d.exec("CREATE TABLE other (n INT)")
		s := d.source(current())
		start(t, s, none)
		past := map[string]string{
			"mysql":   "SET SESSION original_commit_timestamp = (UNIX_TIMESTAMP() - 3600) * 1000000",
			"mariadb": "SET SESSION timestamp = UNIX_TIMESTAMP() - 3600",
		}[d.flavor]
		now := map[string]string{
			"mysql":   "SET SESSION original_commit_timestamp = 36028797018963968", // means unknown
			"mariadb": "SET SESSION timestamp = DEFAULT",
		}[d.flavor]
		d.session(past, "INSERT INTO other VALUES (1)", now)
		until(t, func() bool { return s.Lag().Round(time.Minute) == time.Hour })
		d.session("INSERT INTO other VALUES (2)")
		until(t, func() bool { return s.Lag() == 0 })
	})
}

func (d *database) position() string {
	d.t.Helper()
	query := map[string]string{"mysql": "SELECT @@GLOBAL.gtid_executed", "mariadb": "SELECT @@GLOBAL.gtid_binlog_pos"}[d.flavor]
	var text string
	d.scan(query, &text)
	return strings.ReplaceAll(text, "\n", "")
}

// A transaction larger than the memory limit is buffered in a file, without the parts that were rolled back, compressed or
// not.
//
//covers:binlogs 17 rows both
func TestLargeTransactions(t *testing.T) {
	onEvery(t, func(d *database) {
		t := d.t
		d.simple()
		d.exec("CREATE TABLE plain (n INT) ENGINE = " + map[string]string{"mysql": "InnoDB", "mariadb": "MyISAM"}[d.flavor])
		compressions := []string{"SET SESSION binlog_transaction_compression = OFF", "SET SESSION binlog_transaction_compression = ON"}
		if d.flavor == "mariadb" {
			compressions = []string{"SET GLOBAL log_bin_compress = OFF", "SET GLOBAL log_bin_compress = ON"}
		}
		r := start(t, d.source(current()), none)
		want := 0
		for _, compression := range compressions {
			d.session(compression, deep[d.flavor], "BEGIN", big(want, 6000), "INSERT INTO plain VALUES (1)", "SAVEPOINT s", big(900000, 3000), "ROLLBACK TO s", big(want+6000, 100), "COMMIT")
			want += 6100
			r.ExpectUpTo(0, want-1)
		}
		if d.flavor == "mariadb" {
			d.exec("SET GLOBAL log_bin_compress = OFF")
		}
	})
}

// A table map must not refer to buffers that are reused before its rows are read: those of the format description event, and
// of a transaction in a temporary file.
func TestTableMapSurvivesBufferReuse(t *testing.T) {
	onEach(t, func(d *database) {
		t := d.t
		d.exec("CREATE TABLE other (pad LONGBLOB); CREATE TABLE outbox (n INT NOT NULL, pad LONGBLOB, day DATE, kind ENUM('a', 'b'))")
		r := start(t, d.source(current()), none)
		d.session("INSERT INTO other VALUES (REPEAT('x', 400000))")
		statements := []string{deep[d.flavor], "BEGIN"}
		for first := 0; first < 6000; first += 2000 {
			statements = append(statements, strings.Replace(strings.Replace(big(first, 2000), "outbox", "outbox (n, pad, day, kind)", 1),
				"REPEAT('x', 1000)", "REPEAT('\x04', 1000), '2026-11-21', 'b'", 1))
		}
		d.session(append(statements, "COMMIT")...)
		for i, row := range r.Await(6000) {
			if row["n"] != strconv.Itoa(i) || len(row["pad"]) != 1000 || row["day"] != "2026-11-21" || row["kind"] != "b" {
				cdctest.Violation(t, cdctest.Content, "row %d is %.200v", i, row)
				t.FailNow()
			}
		}
	})
}

// deep raises the recursion limit for big.
var deep = map[string]string{"mysql": "SET SESSION cte_max_recursion_depth = 1000000", "mariadb": "SET SESSION max_recursive_iterations = 1000000"}

// big inserts n rows of a thousand bytes.
func big(first, n int) string {
	return fmt.Sprintf("INSERT INTO outbox WITH RECURSIVE i AS (SELECT %d AS n UNION ALL SELECT n + 1 FROM i WHERE n + 1 < %d) SELECT n, REPEAT('x', 1000) FROM i", first, first+n)
}

// Rows that cannot be published stop the source with an error.
//
//covers:binlogs 20 messages both
func TestStopAtUnpublishableRows(t *testing.T) {
	for name, tt := range map[string]struct {
		statements []string
		reason     string
	}{
		"statement format": {[]string{"SET SESSION binlog_format = STATEMENT", insert(2), "SET SESSION binlog_format = ROW"}, "statement_format"},
		"minimal image":    {[]string{"SET SESSION binlog_row_image = MINIMAL", "INSERT INTO outbox (n) VALUES (2)", "SET SESSION binlog_row_image = FULL"}, "row_image"},
		"minimal metadata": {[]string{"SET GLOBAL binlog_row_metadata = MINIMAL", insert(2), "SET GLOBAL binlog_row_metadata = FULL"}, "row_metadata"},
		"XA":               {[]string{"XA START 'z'", insert(2), "XA END 'z'", "XA PREPARE 'z'", "XA COMMIT 'z'"}, "xa"},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(d *database) {
				t := d.t
				d.simple()
				r := start(t, d.source(current()), none)
				d.session(insert(1))
				d.session(tt.statements...)
				if d.flavor == "mariadb" && tt.reason == "row_image" { // MariaDB logs all columns of an insert anyway
					r.Expect(1, 2)
					return
				}
				var stop *cdc.StopError
				err := r.Ended()
				if !errors.As(err, &stop) || stop.Reason != tt.reason || stop.Class != cdc.ClassRuntime {
					t.Fatalf("%v, want %s", err, tt.reason)
				}
				r.Expect(1)
				d.past(err, binlog.Options{}, insert(3))
			})
		})
	}
}

// past applies the fix of a stop: it sets the position that the fix names and verifies the rows behind it.
func (d *database) past(stop error, o binlog.Options, next string) {
	d.t.Helper()
	_, rest, _ := strings.Cut(cdc.Fix(stop), "`cdc-relay position set ")
	position, _, found := strings.Cut(rest, " --skip-events`")
	if !found || !strings.HasPrefix(stop.Error(), "transaction ") {
		d.t.Errorf("%q names no transaction, or no position", cdc.Explain(stop))
		return
	}
	again := start(d.t, d.source(o), d.stored(cdc.Position(position)))
	d.session(next)
	again.Expect(3)
}
