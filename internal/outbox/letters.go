package outbox

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// LetterRecord says in the database that a relay keeps dead letters of a table. The payload of a letter may be in its row only, so
// whatever removes rows looks at the letters of every relay first, whichever configuration it has. setup writes the record as the
// table's owner; the relay's role only reads it.
type LetterRecord struct {
	// Table is the table's name, Topic that of the letters, and Source the relay's source, which the topic's index names too.
	Table, Topic, Source string
}

// letterTable is where the records are on PostgreSQL. mysqlLetterTable is where they are in each database that has an outbox.
const (
	letterTable      = "dead_letters"
	mysqlLetterTable = "cdc_relay_dead_letters"
)

// PostgresLetterTable is the table of the records.
func PostgresLetterTable() Name { return Name{Schema: partitionSchema, Table: letterTable} }

// MySQLLetterTable is the table of the records for the outbox tables of a database.
func MySQLLetterTable(database string) Name { return Name{Schema: database, Table: mysqlLetterTable} }

// PostgresLetterTableThere returns a query for the name of the table of the records, without a row if it does not exist. It needs no
// right.
func PostgresLetterTableThere() string {
	return fmt.Sprintf("SELECT relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = '%s' AND relname = '%s'", partitionSchema, letterTable)
}

// PostgresLetterRecords returns a query for the records, for [ParseLetterRecord].
func PostgresLetterRecords() string {
	return "SELECT json_build_array(outbox, topic, source)::text FROM " + PostgresLetterTable().SQL()
}

// GrantLetterRecords lets a role use the table of the records on PostgreSQL, which is open to everybody who may use its schema.
func GrantLetterRecords(role string) string {
	return fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO %s", partitionSchema, Quote(role))
}

// MySQLLetterRecords returns the same query for the tables of a database.
func MySQLLetterRecords(database string) string {
	return "SELECT JSON_ARRAY(outbox, topic, source) FROM " + MySQLLetterTable(database).MySQL()
}

// ParseLetterRecord parses a row of these queries.
func ParseLetterRecord(text string) (r LetterRecord, err error) {
	var fields [3]string
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		return r, fmt.Errorf("read a record of dead letters: %w", err)
	}
	return LetterRecord{fields[0], fields[1], fields[2]}, nil
}

// PostgresRecordLetters returns the statements that make the table of the records and write some. Anybody who may use the schema can
// add a record, which keeps rows, since tables of several owners have one table of records; only its owner can remove one.
func PostgresRecordLetters(records []LetterRecord) []Statement {
	if len(records) == 0 {
		return nil
	}
	name := PostgresLetterTable().SQL()
	return []Statement{
		{
			Comment: "Rows that dead letters of a relay may need are kept by every relay and timer.",
			SQL: block(fmt.Sprintf(`BEGIN
  IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = '%[2]s') THEN
    CREATE SCHEMA %[2]s;
  END IF;
  IF NOT EXISTS (%[3]s) THEN
    CREATE TABLE %[1]s (outbox text, topic text, source text, PRIMARY KEY (outbox, topic, source));
    GRANT SELECT, INSERT ON %[1]s TO PUBLIC;
  END IF;
END`, name, partitionSchema, PostgresLetterTableThere())),
		},
		{SQL: "INSERT INTO " + name + " VALUES " + letterValues(records, literal) + " ON CONFLICT DO NOTHING"},
	}
}

// MySQLRecordLetters returns the same for tables of some databases, with empty tables of records where there are no records.
func MySQLRecordLetters(databases []string, records []LetterRecord) (statements []Statement) {
	for _, database := range databases {
		name := MySQLLetterTable(database).MySQL()
		statements = append(statements, Statement{
			Comment: "Rows that dead letters of a relay may need are kept by every relay and timer.",
			SQL: "CREATE TABLE IF NOT EXISTS " + name + " (outbox VARCHAR(255) NOT NULL, topic VARCHAR(249) NOT NULL, source VARCHAR(255) NOT NULL,\n" +
				"  PRIMARY KEY (outbox, topic, source)) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
		})
		mine := slices.DeleteFunc(slices.Clone(records), func(r LetterRecord) bool { return !strings.HasPrefix(r.Table, database+".") })
		if len(mine) > 0 {
			statements = append(statements, Statement{SQL: "INSERT IGNORE INTO " + name + " VALUES " + letterValues(mine, mysqlLiteral)})
		}
	}
	return statements
}

func letterValues(records []LetterRecord, quote func(string) string) string {
	values := make([]string, len(records))
	for i, r := range records {
		values[i] = "(" + quote(r.Table) + ", " + quote(r.Topic) + ", " + quote(r.Source) + ")"
	}
	return strings.Join(values, ", ")
}

// forgetLetters removes the records of a table that is dropped, and their table if no others are left. Records that another owner's
// table has are left: they keep rows of a table of that name, and nothing else.
func forgetLetters(table Name) Statement {
	name := PostgresLetterTable().SQL()
	return Statement{SQL: block(fmt.Sprintf(`BEGIN
  IF EXISTS (%s) THEN
    DELETE FROM %s WHERE outbox = %s;
    IF NOT EXISTS (SELECT FROM %[2]s) THEN
      DROP TABLE %[2]s;
    END IF;
  END IF;
EXCEPTION WHEN insufficient_privilege THEN
  RAISE NOTICE '%%', SQLERRM;
END`, PostgresLetterTableThere(), name, literal(table.String())))}
}

// forgetMySQLLetters removes the records of a table that is dropped, and their table if no others are left. The statements are
// generated, because their table may not exist.
func forgetMySQLLetters(table Name) []Statement {
	records := MySQLLetterTable(table.Schema)
	there := fmt.Sprintf("EXISTS (SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s)", mysqlLiteral(records.Schema), mysqlLiteral(records.Table))
	statements := []Statement{{SQL: "SET @cdc_relay_left = 1"}}
	for _, step := range [][2]string{
		{there, "DELETE FROM " + records.MySQL() + " WHERE outbox = " + mysqlLiteral(table.String())},
		{there, "SELECT COUNT(*) INTO @cdc_relay_left FROM " + records.MySQL()},
		{"@cdc_relay_left = 0", "DROP TABLE " + records.MySQL()},
	} {
		statements = append(statements,
			Statement{SQL: "SET @cdc_relay_ddl = IF(" + step[0] + ",\n  " + mysqlLiteral(step[1]) + ", 'DO 0')"}, Statement{SQL: "PREPARE cdc_relay_ddl FROM @cdc_relay_ddl"},
			Statement{SQL: "EXECUTE cdc_relay_ddl"}, Statement{SQL: "DEALLOCATE PREPARE cdc_relay_ddl"})
	}
	return statements
}

// ForgetPostgres is the statement that removes the records of a relay that is gone.
func (r LetterRecord) ForgetPostgres() string { return r.forget(PostgresLetterTable().SQL()) }

// ForgetMySQL is the same for MySQL and MariaDB. It is shown in backticks, so it has none unless the database's name needs them.
func (r LetterRecord) ForgetMySQL() string {
	database, _, _ := strings.Cut(r.Table, ".")
	if !plain(database) {
		return r.forget(MySQLLetterTable(database).MySQL())
	}
	return r.forget(MySQLLetterTable(database).String())
}

func (r LetterRecord) forget(records string) string {
	return fmt.Sprintf("DELETE FROM %s WHERE topic = %s AND source = %s", records, literal(r.Topic), literal(r.Source))
}
