package binlog

import (
	"io"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// beside creates a second database whose triggers and functions write to the outbox of the first.
func (d *database) beside() string {
	d.t.Helper()
	x := d.name + "_x"
	testenv.Must(d.t, d.server.CreateDatabase(d.t.Context(), x))
	for _, s := range []string{
		"CREATE TABLE X.t (n INT)", "CREATE TABLE X.quiet (n INT)",
		"CREATE TRIGGER X.on_insert AFTER INSERT ON X.t FOR EACH ROW INSERT INTO D.outbox (n) VALUES (NEW.n)",
		"CREATE TRIGGER X.on_update AFTER UPDATE ON X.t FOR EACH ROW INSERT INTO D.outbox (n) VALUES (NEW.n)",
		"CREATE TRIGGER X.on_delete AFTER DELETE ON X.t FOR EACH ROW INSERT INTO D.outbox (n) VALUES (old.n)",
		"CREATE FUNCTION X.f() RETURNS INT DETERMINISTIC BEGIN INSERT INTO D.outbox (n) VALUES (2); RETURN 1; END",
		"CREATE PROCEDURE X.p() INSERT INTO D.outbox (n) VALUES (2)",
	} {
		d.exec(strings.NewReplacer("X.", x+".", "D.", d.name+".").Replace(s))
	}
	return x
}

// load loads one row into the table whose name follows.
const load = "LOAD DATA LOCAL INFILE 'Reader::rows' INTO TABLE "

func (d *database) loadable() {
	d.exec("SET GLOBAL local_infile = ON")
	mysql.RegisterReaderHandler("rows", func() io.Reader { return strings.NewReader("2\n") })
}

// Sessions with another binlog_format than ROW log statements, whose triggers and functions may write to the outbox. The
// relay stops before each statement that may have done so.
//
//covers:binlogs 20 rows both
func TestStatementsStop(t *testing.T) {
	for name, tt := range map[string]struct {
		statements []string
		only       string // one flavor
	}{
		"insert":             {statements: []string{"INSERT INTO D.outbox (n) VALUES (2)"}},
		"executable comment": {statements: []string{"/*! INSERT */ INTO D.outbox (n) VALUES (2)"}},
		"comment of MariaDB": {statements: []string{"/*M! CREATE */ INSERT INTO D.outbox (n) VALUES (2)"}, only: "mysql"},
		"comment with stars": {statements: []string{"/*/ CREATE */ INSERT INTO D.outbox (n) VALUES (2)"}},
		"comment of dashes":  {statements: []string{"--\x01 CREATE\nINSERT INTO D.outbox (n) VALUES (2)"}},
		"trigger":            {statements: []string{"INSERT INTO t VALUES (2)"}},
		"trigger on update":  {statements: []string{"BEGIN", "UPDATE t SET n = 2", "COMMIT"}},
		"trigger on delete":  {statements: []string{"DELETE FROM t"}},
		"DO":                 {statements: []string{"DO f()"}},
		"SELECT":             {statements: []string{"SELECT f()"}},
		"SET":                {statements: []string{"SET @x = f()"}},
		"function in insert": {statements: []string{"INSERT INTO quiet SELECT f()"}},
		"procedure":          {statements: []string{"CALL p()"}},
		"CREATE TABLE":       {statements: []string{"CREATE TABLE filled SELECT f() AS n"}, only: "mariadb"}, // MySQL refuses it
		"VALUES":             {statements: []string{"CREATE TABLE filled VALUES (f())"}, only: "mariadb"},
		"backslash":          {statements: []string{"SET sql_mode = 'NO_BACKSLASH_ESCAPES'", `CREATE TABLE filled (s VARCHAR(9) DEFAULT '\') SELECT f() AS n`}, only: "mariadb"},
		"SET STATEMENT":      {statements: []string{"SET STATEMENT max_statement_time = 9 FOR INSERT INTO t VALUES (2)"}, only: "mariadb"},
		"LOAD DATA":          {statements: []string{load + "t"}},
		"MIXED":              {statements: []string{"SET SESSION binlog_format = MIXED", "INSERT INTO t VALUES (2)"}},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(d *database) {
				if tt.only != "" && tt.only != d.flavor {
					return
				}
				t := d.t
				d.simple()
				x := d.beside()
				d.exec("INSERT INTO " + x + ".t VALUES (0)")
				r := start(t, d.source(current()), none)
				d.session(insert(1))
				statements := []string{"SET SESSION binlog_format = STATEMENT", "USE " + x}
				for _, s := range tt.statements {
					statements = append(statements, strings.ReplaceAll(s, "D.", d.name+"."))
				}
				d.loadable()
				before := d.position()
				d.session(statements...)
				if err := r.Ended(); cdc.ReasonOf(err) != "statement_format" || before == d.position() {
					t.Fatalf("%v, want statement_format", err)
				}
				r.Expect(1)
			})
		})
	}
}

// Statements that servers log despite binlog_format = ROW do not stop the relay, nor do statements that were rolled back, or
// that according to MySQL used other databases only.
//
//covers:binlogs 20 rows both
func TestStatementsPass(t *testing.T) {
	onEach(t, func(d *database) {
		t := d.t
		d.simple()
		x := d.beside()
		d.exec("CREATE TABLE memory (n INT) ENGINE = MEMORY; CREATE TABLE plain (n INT) ENGINE = MyISAM")
		d.loadable()
		r := start(t, d.source(current()), none)
		d.session("USE "+x, "INSERT INTO t VALUES (1)", "UPDATE t SET n = 2", "DO f()", "SET @x = f()", "CALL p()", "USE "+d.name)
		r.Expect(1, 2, 2, 2, 2)
		user := "'" + d.flavor + "_passes'@'%'"
		d.session(
			"CREATE USER "+user, "GRANT SELECT ON *.* TO "+user, "REVOKE SELECT ON *.* FROM "+user, "SET PASSWORD FOR "+user+" = "+
				map[string]string{"mysql": "'x'", "mariadb": "PASSWORD('x')"}[d.flavor], "DROP USER "+user,
			"FLUSH TABLES", "ANALYZE TABLE plain", "OPTIMIZE TABLE plain", "REPAIR TABLE plain", "TRUNCATE plain",
			"CREATE TEMPORARY TABLE passing SELECT 1 AS n", "INSERT INTO passing VALUES (2)", "DROP TEMPORARY TABLE passing",
			"CREATE TABLE copied SELECT n FROM outbox", "RENAME TABLE copied TO renamed", "CREATE VIEW v AS SELECT * FROM renamed",
			"CREATE EVENT e ON SCHEDULE AT '2000-01-01' ON COMPLETION PRESERVE DISABLE DO INSERT INTO outbox (n) VALUES (9)",
			"ALTER TABLE renamed ADD COLUMN m INT DEFAULT (n + 1)", "INSERT INTO memory VALUES (1)", "DROP VIEW v",
			"INSERT INTO plain VALUES (1)", "UPDATE plain SET n = 2",
		)
		if d.flavor == "mariadb" {
			d.session("CREATE SEQUENCE s", "SELECT NEXT VALUE FOR s", "SELECT SETVAL(s, 100)", "ALTER SEQUENCE s RESTART 5", "DROP SEQUENCE s")
			d.session("SET SESSION binlog_format = STATEMENT", "BEGIN", insert(101), "INSERT INTO plain VALUES (1)", "ROLLBACK")
		} else {
			d.session("SET SESSION binlog_format = STATEMENT", "USE "+x, "DROP FUNCTION f", "INSERT INTO quiet VALUES (1)", load+"quiet", "CREATE TABLE copied SELECT n FROM quiet")
		}
		d.session("SET SESSION binlog_format = ROW", "INSERT INTO "+d.name+".outbox (n) VALUES (3)")
		r.Expect(1, 2, 2, 2, 2, 3)
	})
}
