package outbox

import (
	"crypto/sha256"
	_ "embed" // the routine
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// MySQLRoutine returns the name of the procedure that maintains a table's daily partitions.
func MySQLRoutine(table Name) Name { return mysqlPart(table, "maintain") }

// MySQLOnceRoutine is the name of a procedure that its caller drops again, for an owner who wants none in the database.
func MySQLOnceRoutine(table Name) Name { return mysqlPart(table, "maintain_once") }

// MySQLSpare is the name of the table that the procedure exchanges with a partition, before it gives that a name of its own.
func MySQLSpare(table Name) Name { return mysqlPart(table, "spare") }

// mysqlRest is the length of the longest name behind the prefix of a table: the 99th of "max_20060102030405".
const mysqlRest = len("max_20060102030405_99")

// mysqlPart returns the name of something that belongs to a table, in its database: table_rest, shortened and with a
// checksum if that is too long.
func mysqlPart(table Name, rest string) Name {
	prefix := table.Table + "_"
	if room := maxMySQLIdentifier - mysqlRest; len(prefix) > room {
		sum := fnv.New32a()
		_, _ = sum.Write([]byte(prefix))
		const checksum = len("_01234567_")
		prefix = strings.ToValidUTF8(prefix[:room-checksum], "") + fmt.Sprintf("_%08x_", sum.Sum32())
	}
	return Name{Schema: table.Schema, Table: prefix + rest}
}

// MySQLPartitionLock returns the name of the lock (GET_LOCK) that the caller of a table's procedure must hold.
func MySQLPartitionLock(table Name) string {
	name := "cdc-relay partitions " + table.String()
	if len(name) > maxMySQLIdentifier {
		name = fmt.Sprintf("cdc-relay partitions %x", sha256.Sum256([]byte(name)))[:maxMySQLIdentifier]
	}
	return name
}

// mysqlTaken begins the comment of a table that was a partition. Then come the end of its rows, when this was noted, and a GTID set.
func mysqlTaken(table Name) string { return "cdc-relay: taken out of " + table.String() + ", until " }

func mysqlRoutineText(table, routine Name, f cdc.Flavor) *strings.Replacer {
	executed := "@@GLOBAL.gtid_executed"
	if f == cdc.MariaDB {
		executed = "@@GLOBAL.gtid_binlog_pos"
	}
	taken := mysqlLiteral(mysqlTaken(table))
	noted := fmt.Sprintf("SUBSTR(table_comment, CHAR_LENGTH(%s) + %d, %d)", taken, len("2006-01-02 15:04:05, noted ")+1, len("2006-01-02 15:04:05"))
	outbox, spare := table.MySQL(), MySQLSpare(table)
	age := "24" // of youngest
	if routine == MySQLOnceRoutine(table) {
		age = "0"
	}
	return strings.NewReplacer(
		"{routine}", mysqlLiteral(routine.Table), "{schema}", mysqlLiteral(table.Schema), "{table}", mysqlLiteral(table.Table), "{lock}", mysqlLiteral(MySQLPartitionLock(table)),
		"{taken}", taken, "{ours}", "CAST(LEFT(table_comment, CHAR_LENGTH("+taken+")) AS BINARY) = CAST("+taken+" AS BINARY)",
		"{untouched}", "COALESCE(ABS(UNIX_TIMESTAMP(create_time) - TIMESTAMPDIFF(SECOND, '1970-01-01', "+noted+")) <= 60, FALSE)",
		"{spare}", spare.MySQL(), "{spare_name}", mysqlLiteral(spare.Table), "{in_the_way}", mysqlLiteral("table "+spare.Table+" is in the way"), "{executed}", executed,
		"{alter}", mysqlLiteral("ALTER TABLE "+outbox+" "), "{alter_spare}", mysqlLiteral("ALTER TABLE "+spare.MySQL()+" "),
		"{like}", mysqlLiteral("CREATE TABLE "+spare.MySQL()+" LIKE "+outbox), "{drop_spare}", mysqlLiteral("DROP TABLE "+spare.MySQL()),
		"{with_spare}", mysqlLiteral("` WITH TABLE "+spare.MySQL()), "{database}", mysqlLiteral(QuoteMySQL(table.Schema)+"."),
		"{end}", "CAST(SUBSTR(table_comment, CHAR_LENGTH("+taken+") + 1, 19) AS DATETIME)", "{age}", age, "{young}", strconv.Itoa(MySQLYoung),
		"{prefix}", mysqlLiteral(mysqlPart(table, "").Table),
	)
}

// MySQLYoung is the error number by which the procedure refuses to drop what was a part of the table within the last 24 hours.
const MySQLYoung = 45024

// MySQLMaintenance returns the statements that create the procedure that maintains a table's daily partitions. It runs with
// the rights of the user that creates it, so that the relay's user needs none: it takes an action and a name, and touches
// only the table and what it took out of it. It drops nothing that was a part of the table within the last 24 hours, unless it is
// [MySQLOnceRoutine], whose caller is the owner.
//
// Each call changes one thing, because every ALTER commits: whatever ends between two calls, the next pass goes on. A
// partition is never dropped, since a row may be inserted between a look and the drop: its rows are exchanged with an empty
// table, and the empty partition is merged into the next one, which keeps a row that came late.
func MySQLMaintenance(f cdc.Flavor, table, routine Name) []Statement {
	text := mysqlRoutineText(table, routine, f)
	return []Statement{
		{
			Comment: "Maintains the partitions of " + table.String() + " for a user that has no rights on it. Its creator needs\n" +
				"CREATE ROUTINE, SELECT, INSERT, CREATE, ALTER and DROP on the database.",
			SQL: "SET SESSION sql_mode = 'STRICT_ALL_TABLES'",
		},
		{SQL: "DROP PROCEDURE IF EXISTS " + routine.MySQL()},
		{SQL: "CREATE PROCEDURE " + routine.MySQL() + text.Replace(strings.TrimSuffix(mysqlRoutine, "\n"))},
	}
}

// The actions: body returns a checksum of the procedure's text. list returns the partitions, with their bounds, and what was
// taken out, with the rest of the comment, and whether that is as old as the table: that of a restored dump is older. cancel ends the wait of the connection that holds the lock: its statement runs with the rights of another user than the caller's.
//
// The others need the lock. make splits the day off pmax. spare, flat and exchange swap a partition for an empty table, and
// finish gives that table its name, with a GTID set behind all its rows: the exchange waited for the transactions that wrote
// them. A set that is too long for the comment is left out. The exchange verifies that the end in the comment is that of the
// partition: it tells drop the age of the rows; that of pmax is when it was taken out, since it may hold rows of any time. merge makes the first two partitions one.
//
//go:embed mysql_routine.sql
var mysqlRoutine string

// MySQLRoutineSum returns what the procedure of a table answers when it is asked for its body. The servers show its text with
// fewer quotes, and without the character sets of literals.
func MySQLRoutineSum(f cdc.Flavor, table Name) string {
	text := mysqlRoutineText(table, MySQLRoutine(table), f).Replace(strings.TrimSuffix(mysqlRoutine, "\n"))
	body := text[strings.Index(text, "\nBEGIN")+1:]
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.NewReplacer("'", "", "_utf8mb4", "").Replace(body))))
}

// MySQLTakenOut returns a query for the names of the tables that were partitions of a table and were taken out.
func MySQLTakenOut(table Name) string {
	return mysqlRoutineText(table, Name{}, cdc.MySQL).Replace("SELECT CONCAT(table_schema, '.', table_name) FROM information_schema.tables WHERE table_schema = {schema} AND {ours} ORDER BY 1")
}

// MySQLRoutineThere returns a query for the name of a table's procedure, without a row if it does not exist.
func MySQLRoutineThere(table Name) string {
	return "SELECT routine_name FROM information_schema.routines WHERE routine_schema = " + mysqlLiteral(table.Schema) +
		" AND routine_name = " + mysqlLiteral(MySQLRoutine(table).Table)
}

// dropMySQLTakenOut drops what was taken out of a table. The statement is generated, because the names are not known.
func dropMySQLTakenOut(table Name) []Statement {
	text := mysqlRoutineText(table, Name{}, cdc.MySQL)
	return []Statement{
		{Comment: "Detached from " + table.String() + ".", SQL: "SET SESSION group_concat_max_len = 1000000"},
		{SQL: text.Replace("SET @cdc_relay_ddl = (\n  SELECT COALESCE(CONCAT('DROP TABLE ', GROUP_CONCAT({database}, '`', REPLACE(table_name, '`', '``'), '`' SEPARATOR ', ')), 'DO 0')\n" +
			"  FROM information_schema.tables WHERE table_schema = {schema} AND {ours}\n)")},
		{SQL: "PREPARE cdc_relay_ddl FROM @cdc_relay_ddl"},
		{SQL: "EXECUTE cdc_relay_ddl"},
		{SQL: "DEALLOCATE PREPARE cdc_relay_ddl"},
	}
}
