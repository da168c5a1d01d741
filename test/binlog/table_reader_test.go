package binlog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/test/conformance"
)

// reader opens the table outbox to read it by SQL.
func (d *database) reader(o mysql.ReadOptions) *mysql.TableReader {
	d.t.Helper()
	o.Table = d.name + "." + cmp.Or(o.Table, "outbox")
	r, err := mysql.OpenTable(d.t.Context(), d.options(binlog.Options{}).Options, o)
	testenv.Must(d.t, err)
	d.t.Cleanup(func() { r.Close(context.WithoutCancel(d.t.Context())) })
	return r
}

// A row that is read by SQL has the same cells, in the same forms, as the same row from the binlog.
func TestRowsReadBySQLAreThoseOfTheBinlog(t *testing.T) {
	for name, columns := range map[string][]golden{"native": goldens(), "rarer": rarer()} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(d *database) {
				columns := slices.Concat(columns, goldensOf(d.flavor), []golden{
					{"zf", "INT(8) UNSIGNED ZEROFILL", []string{"42", "0"}, nil},
					{"greek", "VARCHAR(20) CHARACTER SET greek", []string{"'αβγ'", "NULL"}, nil},
					{"noon", "TIME(6)", []string{"'12:00:00'", "'-838:59:59'"}, nil},
				})
				ddl, names := []string{"row_id BIGINT PRIMARY KEY", "created_at DATETIME(6) NOT NULL"}, []string{"row_id", "created_at"}
				values := [2][]string{{"2", "'2026-01-02 03:04:05.000001'"}, {"1", "'2026-01-02 03:04:05.000001'"}}
				for _, g := range columns {
					ddl, names = append(ddl, "`"+g.name+"` "+g.ddl), append(names, "`"+g.name+"`")
					values[0], values[1] = append(values[0], g.values[0]), append(values[1], g.values[1])
				}
				d.exec("CREATE TABLE outbox (" + strings.Join(ddl, ", ") + ") CHARACTER SET utf8mb4")
				q := newQueue(d.t)
				var logged []string
				q.Each = func(b *cdc.Batch) { logged = append(logged, conformance.Cells(b)...) }
				r := conformance.Start(d.t, d.source(binlog.Options{FromNow: true, Verify: func(*cdc.Table) error { return nil }}), q, none)
				into := "INSERT INTO outbox (" + strings.Join(names, ", ") + ") VALUES ("
				d.session("SET time_zone = '+00:00'", into+strings.Join(values[1], ", ")+")", into+strings.Join(values[0], ", ")+")",
					"INSERT INTO outbox (row_id, created_at) VALUES (3, '2026-01-02 03:04:05.5')")
				r.Await(3)
				r.MustStop()
				conformance.SameCells(d.t, d.reader(mysql.ReadOptions{Key: "row_id", At: "created_at"}), logged)
			})
		})
	}
}

const dayOutbox = `CREATE TABLE outbox (event_id VARBINARY(16) NOT NULL, aggregate_id VARCHAR(20), topic VARCHAR(20), created_at DATETIME(6) NOT NULL, PRIMARY KEY (event_id, created_at))
	PARTITION BY RANGE COLUMNS (created_at) (PARTITION p1 VALUES LESS THAN ('2026-01-02'), PARTITION p2 VALUES LESS THAN ('2026-01-03'), PARTITION pmax VALUES LESS THAN (MAXVALUE))`

// A table that is taken out while a statement waits for the metadata lock is neither in the table nor known to be beside it. Its rows are
// counted and read all the same.
func TestDetachedWhileAStatementWaits(t *testing.T) {
	onEach(t, func(d *database) {
		for name, read := range map[string]func(r *mysql.TableReader) (int, error){
			"keys": func(r *mysql.TableReader) (int, error) {
				keys, err := r.Keys(t.Context(), tableread.Filter{}, tableread.Window{}, tableread.Key{}, 10)
				return len(keys), err
			},
			"count": func(r *mysql.TableReader) (int, error) {
				n, err := r.Count(t.Context(), tableread.Filter{})
				return int(n), err
			},
		} {
			d.exec("DROP TABLE IF EXISTS outbox, taken")
			d.exec(dayOutbox)
			d.exec("CREATE TABLE taken (event_id VARBINARY(16) NOT NULL, aggregate_id VARCHAR(20), topic VARCHAR(20), created_at DATETIME(6) NOT NULL, PRIMARY KEY (event_id, created_at))")
			d.exec("INSERT INTO outbox (event_id, created_at) VALUES ('1', '2026-01-01'), ('2', '2026-01-01'), ('3', '2026-01-05')")
			r := d.reader(mysql.ReadOptions{
				Key: "event_id", At: "created_at",
				TakenOut: "SELECT CONCAT(table_schema, '.', table_name) FROM information_schema.tables WHERE table_schema = '" + d.name + "' AND table_comment = 'out'",
			})
			conn, err := d.db.Conn(t.Context())
			testenv.Must(t, err)
			run := func(sql string) {
				if _, err := conn.ExecContext(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			run("LOCK TABLES outbox WRITE, taken WRITE")
			got, failed := make(chan int, 1), make(chan error, 1)
			go func() {
				n, err := read(r)
				got <- n
				failed <- err
			}()
			d.eventually("SELECT COUNT(*) > 0 FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata lock%' AND info LIKE '%" + d.name + "%'")
			run("ALTER TABLE taken COMMENT 'out'")
			run("ALTER TABLE outbox EXCHANGE PARTITION p1 WITH TABLE taken")
			run("UNLOCK TABLES")
			if n, err := <-got, <-failed; err != nil || n != 3 {
				t.Errorf("%s: %d, %v; want 3", name, n, err)
			}
			_ = conn.Close()
		}
	})
}

// A time may be no date, in the table and in what was taken out of it.
func TestTimesThatAreNoDates(t *testing.T) {
	onEach(t, func(d *database) {
		d.exec("CREATE TABLE outbox (id INT PRIMARY KEY, at DATETIME(6) NOT NULL)")
		d.exec("CREATE TABLE taken LIKE outbox")
		d.session("SET SESSION sql_mode = ''",
			"INSERT INTO outbox VALUES (3, '2026-01-02'), (1, '0000-00-00'), (2, '0001-01-01'), (4, '9999-12-31 23:59:59.999999')",
			"INSERT INTO taken VALUES (5, '0000-00-00'), (6, '2026-00-15'), (7, '0000-00-00')")
		r := d.reader(mysql.ReadOptions{Key: "id", At: "at", TakenOut: "SELECT '" + d.name + ".taken'"})
		var got []string
		for _, row := range conformance.ReadCells(d.t, r) {
			_, id, _ := strings.Cut(row, `"`)
			id, _, _ = strings.Cut(id, `"`)
			got = append(got, id)
		}
		if want := "1 5 7 2 6 3 4"; strings.Join(got, " ") != want {
			t.Errorf("%s, want %s", got, want)
		}
		if n, err := r.Count(t.Context(), tableread.Filter{From: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}); err != nil || n != 2 {
			t.Errorf("since 2026 %d, %v", n, err)
		}
	})
}

func TestOrderOfRows(t *testing.T) {
	const (
		counted = "CREATE TABLE jobs (id INT PRIMARY KEY AUTO_INCREMENT, at DATETIME NULL, n INT)"
		other   = "CREATE TABLE jobs (id CHAR(36) PRIMARY KEY DEFAULT (REVERSE(UUID())), at DATETIME NULL, seq INT NOT NULL UNIQUE AUTO_INCREMENT, n INT)"
		plain   = "CREATE TABLE jobs (id INT PRIMARY KEY, at DATETIME NOT NULL, n INT)"
		dated   = "CREATE TABLE jobs (id INT PRIMARY KEY, at DATE NOT NULL, n INT)"
		untimed = "CREATE TABLE jobs (id INT PRIMARY KEY, at BIGINT NULL, n INT)"
		null    = "CREATE TABLE jobs (id INT PRIMARY KEY, at DATETIME NULL, n INT)"
		decimal = "CREATE TABLE jobs (n INT, id DECIMAL(20) AS (18446744073709551610 + n))"
	)
	first, since := tableread.Filter{Where: "n = 1"}, tableread.Filter{IDs: []string{"1"}, From: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	at, grows := tableread.ReadOptions{At: "at"}, tableread.ReadOptions{At: "at", Counted: true}
	cases := map[string]conformance.Ordered{
		"a counted ID":            {DDL: counted, At: true, By: "id", Want: "1 2 3", Options: grows},
		"another counted number":  {DDL: other, At: true, By: "seq", Want: "1 2 3", Options: grows},
		"named":                   {DDL: plain, ID: true, At: true, By: "n", Want: "1 2 3", Options: tableread.ReadOptions{At: "at", OrderBy: "n", Counted: true}, Filter: tableread.Filter{IDs: []string{"1", "2", "3"}}},
		"digits":                  {DDL: decimal, By: "id", Want: "1 2 3", Options: tableread.ReadOptions{OrderBy: "id"}},
		"digits, IDs":             {DDL: decimal, By: "id", Want: "1 3", Options: tableread.ReadOptions{OrderBy: "id"}, Filter: tableread.Filter{IDs: []string{"18446744073709551613", "18446744073709551611"}}},
		"time":                    {DDL: plain, ID: true, At: true, By: "at", Want: "3 2 1", Options: grows},
		"since noon":              {DDL: dated, ID: true, At: true, By: "at", Want: "1 2 3", Options: at, Filter: tableread.Filter{From: since.From.Add(36 * time.Hour)}},
		"of the native table":     {DDL: counted, At: true, Last: true, By: "at", Options: at, Reason: "no_place"},
		"no order":                {DDL: untimed, ID: true, Options: grows, Reason: "no_order"},
		"no order, IDs":           {DDL: untimed, ID: true, Want: "1 3", Options: tableread.ReadOptions{Counted: true}, Filter: tableread.Filter{IDs: []string{"3", "1"}}},
		"no time":                 {DDL: untimed, ID: true, Options: tableread.ReadOptions{Counted: true}, Filter: since, Reason: "no_time"},
		"NULL":                    {DDL: null, ID: true, At: true, Last: true, By: "at", Options: at, Reason: "no_place"},
		"NULL in another row":     {DDL: null, ID: true, At: true, Last: true, By: "at", Want: "1", Options: at, Filter: first},
		"NULL, an ID":             {DDL: null, ID: true, At: true, Last: true, By: "at", Want: "3", Options: at, Filter: tableread.Filter{IDs: []string{"3"}}},
		"NULL, an ID, and a time": {DDL: null, ID: true, At: true, Last: true, By: "at", Options: at, Filter: tableread.Filter{IDs: []string{"3"}, From: since.From}, Reason: "no_place"},
	}
	conform(t, func(c *conforming) { conformance.OrderOfRows(c.t, c, cases) })
}

// While days are taken out, step by step, a reader has each row once, whichever name the row's table has by then. What is dropped while
// it reads is left out.
func TestRowsAreReadBetweenTheStepsOfAPass(t *testing.T) {
	onEach(t, func(d *database) {
		k := keeping(d, 5)
		d.insertAt(4, 1, 1)
		d.insertAt(3, 2, 2)
		d.insertAt(0, 9, 9)
		r := d.reader(mysql.ReadOptions{
			Key: "event_id", At: "created_at", TakenOut: outbox.MySQLTakenOut(d.outbox()),
			Routine: outbox.MySQLRoutine(d.outbox()).MySQL(), Spare: outbox.MySQLSpare(d.outbox()).String(),
		})
		wantRows := func(keys []tableread.Key, want int, when string) {
			d.t.Helper()
			rows := 0
			if keys == nil {
				rows = len(conformance.ReadCells(d.t, r))
			} else {
				err := r.Rows(t.Context(), tableread.Filter{}, tableread.Page{Keys: keys}, func(b *cdc.Batch) error { rows += b.Rows(); return nil })
				if err != nil {
					d.t.Errorf("%s: %v", when, err)
				}
			}
			n, err := r.Count(t.Context(), tableread.Filter{})
			if rows != want || int(n) != want || err != nil {
				cdctest.Violation(d.t, cdctest.Lost, "%s: %d rows are counted and %d read, want %d: %v", when, n, rows, want, err)
			}
		}
		keys := func() []tableread.Key {
			keys, err := r.Keys(t.Context(), tableread.Filter{}, tableread.Window{}, tableread.Key{}, 10)
			testenv.Must(d.t, err)
			return keys
		}
		for _, ago := range []int{4, 3} {
			for _, step := range []string{"finish", "spare", "flat", "exchange", "finish", "merge"} {
				before := keys()
				k.call([]string{step}, "p"+daysAgo(ago))
				wantRows(before, 3, fmt.Sprintf("%d days ago, after the step %s", ago, step))
				wantRows(nil, 3, fmt.Sprintf("%d days ago, after the step %s", ago, step))
			}
		}
		before := keys()
		k.relayed()
		testenv.Must(d.t, k.maintain(twoDays()))
		wantRows(before, 1, "what was taken out is dropped")
	})
}
