package outbox

import (
	"crypto/sha256"
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
		{SQL: "CREATE PROCEDURE " + routine.MySQL() + text.Replace(mysqlRoutineBody)},
	}
}

// The actions: body returns a checksum of the procedure's text. list returns the partitions, with their bounds, and what was
// taken out, with the rest of the comment, and whether that is as old as the table: that of a restored dump is older. cancel ends the wait of the connection that holds the lock: its statement runs with the rights of another user than the caller's.
//
// The others need the lock. make splits the day off pmax. spare, flat and exchange swap a partition for an empty table, and
// finish gives that table its name, with a GTID set behind all its rows: the exchange waited for the transactions that wrote
// them. A set that is too long for the comment is left out. The exchange verifies that the end in the comment is that of the
// partition: it tells drop the age of the rows; that of pmax is when it was taken out, since it may hold rows of any time. merge makes the first two partitions one.
const mysqlRoutineBody = `(
  IN action VARCHAR(16) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN part VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
SQL SECURITY DEFINER
BEGIN
  DECLARE ddl, name, base, said TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
  DECLARE until DATETIME;
  DECLARE n INT DEFAULT 1;
  DECLARE known BOOLEAN;
  IF action = 'cancel' THEN
    IF EXISTS (SELECT 1 FROM information_schema.processlist WHERE id = IS_USED_LOCK({lock}) AND state LIKE 'Waiting for table metadata lock%') THEN
      KILL QUERY IS_USED_LOCK({lock});
    END IF;
  ELSEIF action = 'body' THEN
    SELECT SHA2(REPLACE(REPLACE(routine_definition, '''', ''), '_utf8mb4', ''), 256) FROM information_schema.routines
      WHERE routine_schema = {schema} AND routine_name = {routine} AND security_type = 'DEFINER' AND sql_mode = 'STRICT_ALL_TABLES';
  ELSEIF action = 'list' THEN
    SELECT partition_name AS name, partition_ordinal_position AS n, partition_description AS bound, NULL AS taken, TRUE AS untouched
      FROM information_schema.partitions WHERE table_schema = {schema} AND table_name = {table} AND partition_name IS NOT NULL
    UNION ALL SELECT table_name, NULL, NULL, SUBSTR(table_comment, CHAR_LENGTH({taken}) + 1), {untouched}
      FROM information_schema.tables WHERE table_schema = {schema} AND {ours};
  ELSEIF COALESCE(IS_USED_LOCK({lock}), 0) <> CONNECTION_ID() THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'this connection does not hold the lock of the partitions';
  ELSE
    SELECT IF(partition_description = 'MAXVALUE', UTC_TIMESTAMP(), CAST(TRIM(BOTH '''' FROM partition_description) AS DATETIME)) INTO until
      FROM information_schema.partitions WHERE table_schema = {schema} AND table_name = {table} AND CAST(partition_name AS BINARY) = CAST(part AS BINARY);
    IF action IN ('flat', 'exchange', 'merge') AND COALESCE(until > UTC_TIMESTAMP(), TRUE) THEN
      SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not a partition of a day that has ended';
    ELSEIF action = 'make' THEN
      SET until = CAST(SUBSTR(part, 2) AS DATETIME);
      SET ddl = CONCAT({alter}, 'REORGANIZE PARTITION pmax INTO (PARTITION p', DATE_FORMAT(until, '%Y%m%d'),
        ' VALUES LESS THAN (''', DATE(until) + INTERVAL 1 DAY, '''), PARTITION pmax VALUES LESS THAN (MAXVALUE))');
    ELSEIF action = 'spare' THEN
      SET ddl = {like};
    ELSEIF action = 'flat' THEN
      IF EXISTS (SELECT 1 FROM {spare}) THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the spare table is not empty';
      END IF;
      SET ddl = CONCAT({alter_spare}, 'COMMENT = ', QUOTE(CONCAT({taken}, until, ', noted ', UTC_TIMESTAMP())), ' REMOVE PARTITIONING');
    ELSEIF action = 'exchange' THEN
      IF EXISTS (SELECT 1 FROM {spare}) THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the spare table is not empty';
      ELSEIF NOT EXISTS (SELECT 1 FROM information_schema.tables WHERE table_schema = {schema} AND table_name = {spare_name} AND {ours} AND {end} >= until - INTERVAL 10 MINUTE) THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the spare table was made for another partition';
      END IF;
      SET ddl = CONCAT({alter}, 'EXCHANGE PARTITION ` + "`', REPLACE(part, '`', '``')" + `, {with_spare});
    ELSEIF action = 'finish' THEN
      SELECT table_comment, {ours} AND {untouched} OR COALESCE(create_options, '') LIKE '%partitioned%' INTO said, known
        FROM information_schema.tables WHERE table_schema = {schema} AND table_name = {spare_name};
      IF said IS NULL THEN
        SET ddl = NULL;
      ELSEIF NOT known THEN
        SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 1050, MESSAGE_TEXT = {in_the_way};
      ELSEIF NOT EXISTS (SELECT 1 FROM {spare}) THEN
        SET ddl = {drop_spare};
      ELSE
        SET until = CAST(SUBSTR(said, CHAR_LENGTH({taken}) + 1, 19) AS DATETIME);
        SET base = CONCAT({prefix}, IF(TIME(until) = 0, DATE_FORMAT(until - INTERVAL 1 DAY, '%Y%m%d'), DATE_FORMAT(until, 'max_%Y%m%d%H%i%s')));
        SET name = base;
        WHILE EXISTS (SELECT 1 FROM information_schema.tables WHERE table_schema = {schema} AND LOWER(table_name) = LOWER(name)) DO
          SET n = n + 1, name = CONCAT(base, '_', n);
        END WHILE;
        SET said = CONCAT({taken}, until, ', noted ', UTC_TIMESTAMP());
        IF CHAR_LENGTH({executed}) < 1900 - CHAR_LENGTH(said) THEN
          SET said = CONCAT(said, ', GTID ', REPLACE({executed}, CHAR(10), ''));
        END IF;
        SET ddl = CONCAT({alter_spare}, 'RENAME TO ', {database}, ` + "'`', REPLACE(name, '`', '``'), '`'" + `, ', COMMENT = ', QUOTE(said));
      END IF;
    ELSEIF action = 'merge' THEN
      SELECT partition_name INTO base FROM information_schema.partitions
        WHERE table_schema = {schema} AND table_name = {table} AND partition_ordinal_position = 1;
      SELECT partition_name INTO name FROM information_schema.partitions
        WHERE table_schema = {schema} AND table_name = {table} AND partition_ordinal_position = 2;
      IF name <> part THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not the second partition';
      END IF;
      SET ddl = CONCAT({alter}, 'REORGANIZE PARTITION ` + "`', REPLACE(base, '`', '``'), '`, `', REPLACE(name, '`', '``'), '` INTO (PARTITION `', REPLACE(name, '`', '``'), '`" + ` VALUES LESS THAN (''', DATE(until), '''))');
    ELSEIF action = 'drop' THEN
      SELECT table_name, {end} INTO name, until FROM information_schema.tables WHERE table_schema = {schema} AND CAST(table_name AS BINARY) = CAST(part AS BINARY) AND {ours};
      IF name IS NULL THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no table that was taken out';
      ELSEIF COALESCE(until + INTERVAL {age} HOUR > UTC_TIMESTAMP(), TRUE) THEN
        SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {young}, MESSAGE_TEXT = 'it was a part of the table within the last 24 hours';
      END IF;
      SET ddl = CONCAT('DROP TABLE ', {database}, ` + "'`', REPLACE(name, '`', '``'), '`'" + `);
    ELSE
      SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'unknown action';
    END IF;
    IF ddl IS NOT NULL THEN
      SET @cdc_relay_ddl = ddl;
      PREPARE cdc_relay_ddl FROM @cdc_relay_ddl;
      EXECUTE cdc_relay_ddl;
      DEALLOCATE PREPARE cdc_relay_ddl;
    END IF;
  END IF;
END`

// MySQLRoutineSum returns what the procedure of a table answers when it is asked for its body. The servers show its text with
// fewer quotes, and without the character sets of literals.
func MySQLRoutineSum(f cdc.Flavor, table Name) string {
	text := mysqlRoutineText(table, MySQLRoutine(table), f).Replace(mysqlRoutineBody)
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

// MySQLUnique returns a query for the unique indexes of a column; in a partitioned table also those that hold more columns, as they must.
func MySQLUnique(table Name, column string) string {
	where := " WHERE table_schema = " + mysqlLiteral(table.Schema) + " AND table_name = " + mysqlLiteral(table.Table)
	return "SELECT index_name FROM information_schema.statistics" + where + " AND non_unique = 0 GROUP BY index_name" +
		" HAVING SUM(column_name = " + mysqlLiteral(column) + " AND sub_part IS NULL) = 1" +
		" AND (COUNT(*) = 1 OR EXISTS (SELECT 1 FROM information_schema.partitions" + where + " AND partition_name IS NOT NULL))"
}
