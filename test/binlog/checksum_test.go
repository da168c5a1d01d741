package binlog

import (
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// checksums adds a second database with the table of pt-table-checksum. In statements, C. and CC stand for it, D. for d's
// database.
type checksums struct {
	*database

	names *strings.Replacer
}

func (d *database) checksums() *checksums {
	d.t.Helper()
	d.simple()
	c := &checksums{d, strings.NewReplacer("C.", "`"+d.name+"_c`.", "D.", "`"+d.name+"`.", "CC", "`"+d.name+"_c`")}
	testenv.Must(d.t, d.server.CreateDatabase(d.t.Context(), d.name+"_c"))
	c.run("CREATE TABLE D.orders (id INT PRIMARY KEY, name VARCHAR(20))", "INSERT INTO D.orders VALUES (1, 'x'), (2, 'ø')", "CREATE TABLE C.checksums ("+checksumColumns+")")
	return c
}

// checksumColumns and checksumRun are the table and the statements of pt-table-checksum.
const checksumColumns = `db CHAR(64) NOT NULL, tbl CHAR(64) NOT NULL, chunk INT NOT NULL, chunk_time FLOAT NULL, chunk_index VARCHAR(200) NULL,
	lower_boundary TEXT NULL, upper_boundary TEXT NULL, this_crc CHAR(40) NOT NULL, this_cnt INT NOT NULL, master_crc CHAR(40) NULL, master_cnt INT NULL,
	ts TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, PRIMARY KEY (db, tbl, chunk), INDEX ts_db_tbl (ts, db, tbl)`

const into = "REPLACE INTO C.`checksums` (db, tbl, chunk, chunk_index, lower_boundary, upper_boundary, this_cnt, this_crc) SELECT 'shop', 'orders', "

func checksumRun() []string {
	return []string{
		"SET @@SQL_QUOTE_SHOW_CREATE = 1/*!40101, @@SQL_MODE='NO_AUTO_VALUE_ON_ZERO,STRICT_TRANS_TABLES'*/", "SET @@binlog_format = 'STATEMENT'",
		"CREATE DATABASE IF NOT EXISTS CC /* pt-table-checksum */", "CREATE TABLE IF NOT EXISTS C.`checksums` (" + checksumColumns + ")",
		"DELETE FROM C.`checksums` WHERE db = 'shop' AND tbl = 'orders'",
		into + "'1', 'PRIMARY', '1', '2', COUNT(*) AS cnt, COALESCE(LOWER(CONV(BIT_XOR(CAST(CRC32(CONCAT_WS('#', `id`, convert(`name` using utf8mb4), CONCAT(ISNULL(`name`)))) AS UNSIGNED)), 10, 16)), 0) AS crc FROM D.`orders` FORCE INDEX(`PRIMARY`) WHERE ((`id` >= '1')) AND ((`id` <= '2')) /*checksum chunk*/",
		"UPDATE C.`checksums` SET chunk_time = '0.092035', master_crc = '30058458', master_cnt = '2' WHERE db = 'shop' AND tbl = 'orders' AND chunk = '1'",
		into + "'2', 'PRIMARY', NULL, '1', COUNT(*), '0' FROM D.`orders` FORCE INDEX(`PRIMARY`) WHERE ((`id` < '1')) ORDER BY `id` /*past lower chunk*/",
		into + "'3', NULL, NULL, NULL, COUNT(*) AS cnt, COALESCE(LOWER(CONV(BIT_XOR(CAST(CRC32(CONCAT_WS('#', `n`)) AS UNSIGNED)), 10, 16)), 0) AS crc FROM D.`outbox` /*checksum table*/",
	}
}

func (c *checksums) run(statements ...string) {
	c.t.Helper()
	var replaced []string
	for _, s := range append(statements, "SET SESSION binlog_format = ROW, sql_mode = DEFAULT", "SET NAMES utf8mb4") { // for the connection's next user
		replaced = append(replaced, c.names.Replace(s))
	}
	c.session(replaced...)
}

// harmless returns a source for which statements on the table of pt-table-checksum are harmless.
func (c *checksums) harmless() *binlog.Source {
	return c.source(binlog.Options{HarmlessTables: []string{c.table(), c.name + ".outbox"}}) // the latter has no effect
}

// table is that of pt-table-checksum.
func (c *checksums) table() string { return c.name + "_c.checksums" }

// The statements of pt-table-checksum pass if its table is listed, and later events are published. If it is not, the relay stops and
// names it.
//
//covers:binlogs 20 rows both
func TestChecksumsPass(t *testing.T) {
	onEach(t, func(d *database) {
		t, c := d.t, d.checksums()
		r := start(t, d.source(current()), none)
		d.session(insert(1))
		c.run(checksumRun()...)
		d.session(insert(2))
		if err := r.Ended(); cdc.ReasonOf(err) != "statement_format" || !strings.Contains(cdc.Fix(err), "add "+c.table()+" to source.mysql.harmless_tables ") {
			t.Fatalf("%s, want it to name %s", cdc.Explain(err), c.table())
		}
		r.Expect(1)
		r = start(t, c.harmless(), d.stored(r.Progress().Position))
		c.run(checksumRun()...)
		d.session("ALTER TABLE orders ADD COLUMN m INT", insert(3))
		c.run(append([]string{"SET /*M!110200 character_set_collations = 'utf8mb4=utf8mb4_uca1400_ai_ci,latin1=latin1_bin', */ @n = 1"}, checksumRun()...)...)
		d.session(insert(4))
		r.Expect(2, 3, 4)
	})
}

// A statement that may reach an outbox stops the relay before it, although the table that it names is listed.
//
//covers:binlogs 20 rows both
func TestChecksumsStop(t *testing.T) {
	const statement = "SET SESSION binlog_format = STATEMENT"
	const replace = "REPLACE INTO C.checksums (db, tbl, chunk, this_crc, this_cnt) SELECT 'x', 'x', 9, 'x', "
	function := "CREATE FUNCTION D.f() RETURNS INT DETERMINISTIC BEGIN INSERT INTO D.outbox (n) VALUES (9); RETURN 1; END"
	for name, statements := range map[string][]string{
		"the outbox":              {statement, "INSERT INTO D.outbox (n) VALUES (9)"},
		"function":                {function, statement, replace + "D.f() FROM D.orders LIMIT 1"},
		"function in a comment":   {function, statement, replace + "1 /*! + D.f() */ FROM D.orders LIMIT 1"},
		"function like a keyword": {strings.Replace(function, "f()", "`in`()", 1), statement, replace + "D.in () FROM D.orders LIMIT 1"},
		"function with a space":   {strings.Replace(function, "f()", "`count`()", 1), statement, replace + "count () FROM D.orders LIMIT 1"},
		"strings end elsewhere":   {function, statement, "SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'", replace + "1 FROM D.orders WHERE name <> '\\' AND D.f() = 1 /* ' */ LIMIT 1"},
		"letters of two bytes":    {function, statement, "SET NAMES gbk", replace + "1 FROM D.orders WHERE name <> '\xbf\\' AND D.f() = 1 /* ' */ LIMIT 1"},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(d *database) {
				t, c := d.t, d.checksums()
				from := d.position()
				d.session(insert(1))
				before := d.position()
				c.run(statements...)
				d.session(insert(2))
				r := start(t, c.harmless(), d.stored(cdc.Position(from)))
				if err := r.EndedBehind(1); cdc.ReasonOf(err) != "statement_format" || before == d.position() {
					t.Fatalf("%v, want statement_format", err)
				}
				r.Expect(1)
			})
		})
	}
}

// What lets statements pass although other tables refer to theirs.
//
//covers:binlogs 20 state both
func TestCascadesFireNoTriggers(t *testing.T) {
	onEach(t, func(d *database) {
		d.simple()
		for _, s := range []string{
			"CREATE TABLE parent (id INT PRIMARY KEY)", "INSERT INTO parent VALUES (1), (2), (3)",
			"CREATE TABLE child (p INT, q INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE ON UPDATE CASCADE, FOREIGN KEY (q) REFERENCES parent (id) ON DELETE SET NULL)",
			"INSERT INTO child VALUES (1, NULL), (2, NULL), (NULL, 3)",
		} {
			d.exec(s)
		}
		for _, event := range []string{"BEFORE UPDATE", "AFTER UPDATE", "BEFORE DELETE", "AFTER DELETE"} {
			d.exec("CREATE TRIGGER `" + event + "` " + event + " ON child FOR EACH ROW INSERT INTO outbox (n) VALUES (9)")
		}
		d.session("SET SESSION binlog_format = STATEMENT", "UPDATE parent SET id = 11 WHERE id = 1", "DELETE FROM parent WHERE id = 2", "DELETE FROM parent WHERE id = 3")
		var rows, moved, kept, events int
		d.scan("SELECT COUNT(*), SUM(p <=> 11), SUM(q IS NOT NULL), (SELECT COUNT(*) FROM outbox) FROM child", &rows, &moved, &kept, &events)
		if rows != 2 || moved != 1 || kept != 0 || events != 0 {
			d.t.Errorf("%d children, %d moved, %d not set to NULL, %d events", rows, moved, kept, events)
		}
	})
}

// The functions that pass are built in: the server warns when a stored function is created with the same name, because a
// call without a schema does not reach it.
//
//covers:binlogs 20 messages both
func TestBuiltInFunctions(t *testing.T) {
	names := strings.Fields("bit_xor cast coalesce concat concat_ws conv convert count crc32 hex if ifnull isnull lcase left length lower " +
		"lpad max min now nullif round substring sum trim ucase unix_timestamp upper")
	onEach(t, func(d *database) {
		conn, err := d.db.Conn(d.t.Context())
		testenv.Must(d.t, err)
		defer conn.Close()
		for _, name := range names {
			if _, err := conn.ExecContext(d.t.Context(), "CREATE FUNCTION `"+name+"`() RETURNS INT DETERMINISTIC RETURN 1"); err != nil {
				d.t.Fatal(err)
			}
			var level, text string
			var code int
			if err := conn.QueryRowContext(d.t.Context(), "SHOW WARNINGS").Scan(&level, &code, &text); err != nil || code != 1585 {
				d.t.Errorf("%s: %d %s %v, want warning 1585", name, code, text, err)
			}
		}
	})
}
