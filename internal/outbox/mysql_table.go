package outbox

import (
	"fmt"
	"strings"
	"time"
)

// MySQLMaxPartition is the partition for rows after the last day's, so that a missing day never fails the
// application's transaction.
const MySQLMaxPartition = "pmax"

// MySQLTextLength is how many characters the text columns of the native table hold on MySQL and MariaDB.
// Longer ones could not be indexed in pairs (InnoDB takes 3072 bytes for a key, utf8mb4 up to 4 for a
// character).
const MySQLTextLength = 255

// MySQLTable returns the script that makes the native table on MySQL 8.4 and 9 and on MariaDB 10.11 and 11,
// with its partitions: From's day, which takes all before it too, Ahead more, and a last one for what comes
// later. The owner of the table runs it, all of it on one connection. Where the table is there already, the
// days that its last partition still holds get theirs.
func MySQLTable(o TableOptions) (Script, error) {
	if err := o.complete(); err != nil {
		return Script{}, err
	}
	s := Script{
		Name: "create_" + fileName(o.Name.Table),
		Up:   []Statement{createMySQLTable(&o)},
		Down: []Statement{{Comment: "This loses the events that are not published yet.", SQL: "DROP TABLE IF EXISTS " + o.Name.MySQL()}},
	}
	if o.Partition == PartitionDaily {
		s.Up = append(s.Up, addMySQLPartitions(&o)...)
	}
	return s, nil
}

// createMySQLTable says of each column what MySQL would otherwise take from settings of the database.
//
// The id is VARBINARY because the binlog strips the trailing zero bytes of BINARY. Headers are text because
// a column of type JSON is stored in a form of its own and comes back rendered anew.
func createMySQLTable(o *TableOptions) Statement {
	key, partitions := "event_id", ""
	if o.Partition == PartitionDaily {
		key, partitions = "event_id, created_at", mysqlPartitions(o)
	}
	payload := map[PayloadType]string{PayloadBytea: "LONGBLOB", PayloadText: "LONGTEXT", PayloadJSONB: "JSON"}[o.Payload]
	text := fmt.Sprintf("VARCHAR(%d)", MySQLTextLength)
	return Statement{
		Comment: "Append only: applications insert, cdc-relay reads the inserts from the binlog.\n" +
			"event_id holds the 16 bytes of a UUID, times are in UTC, headers are a JSON object.",
		SQL: "CREATE TABLE IF NOT EXISTS " + o.Name.MySQL() + ` (
  event_id VARBINARY(16) NOT NULL,
  aggregate_type ` + text + ` NOT NULL,
  aggregate_id ` + text + ` NOT NULL,
  event_type ` + text + ` NOT NULL,
  tenant_id ` + text + `,
  topic ` + text + `,
  partition_key ` + text + `,
  content_type ` + text + ` NOT NULL DEFAULT 'application/json',
  schema_id ` + text + `,
  schema_version INT,
  headers LONGTEXT,
  payload ` + payload + `,
  occurred_at DATETIME(6) NOT NULL,
  created_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  PRIMARY KEY (` + key + `)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin` + partitions,
	}
}

// mysqlPartitions returns the PARTITION BY of a new table.
func mysqlPartitions(o *TableOptions) string {
	var b strings.Builder
	b.WriteString("\nPARTITION BY RANGE COLUMNS (created_at) (\n")
	midnight := o.From.UTC().Truncate(24 * time.Hour)
	for n := range o.Ahead + 1 {
		day := midnight.AddDate(0, 0, n)
		fmt.Fprintf(&b, "  PARTITION %s VALUES LESS THAN ('%s'),\n", MySQLPartition(day), day.AddDate(0, 0, 1).Format(time.DateOnly))
	}
	b.WriteString("  PARTITION " + MySQLMaxPartition + " VALUES LESS THAN (MAXVALUE)\n)")
	return b.String()
}

// addMySQLPartitions divides the last partition of a table that was there already. MySQL has no statement
// that does so only where it must, so the statement is made and then executed.
func addMySQLPartitions(o *TableOptions) []Statement {
	first := o.From.UTC().Truncate(24 * time.Hour)
	schema := "DATABASE()"
	if o.Name.Schema != "" {
		schema = mysqlLiteral(o.Name.Schema)
	}
	alter := mysqlLiteral("ALTER TABLE " + o.Name.MySQL() + " REORGANIZE PARTITION " + MySQLMaxPartition + " INTO (")
	return []Statement{
		{
			Comment: fmt.Sprintf("Where the table was there already: daily partitions (UTC) to %s out of the last one.\n"+
				"Writers wait while it runs, which is short as long as the last one is empty.",
				first.AddDate(0, 0, o.Ahead).Format(time.DateOnly)),
			SQL: "SET SESSION group_concat_max_len = 1000000",
		},
		{SQL: fmt.Sprintf(`SET @cdc_relay_ddl = (
  WITH RECURSIVE days (day) AS (
    SELECT DATE '%s' UNION ALL SELECT day + INTERVAL 1 DAY FROM days WHERE day < '%s'
  )
  SELECT COALESCE(CONCAT(%s,
    GROUP_CONCAT('PARTITION p', DATE_FORMAT(day, '%%Y%%m%%d'), ' VALUES LESS THAN (''', day + INTERVAL 1 DAY, ''')' ORDER BY day SEPARATOR ', '),
    ', PARTITION %s VALUES LESS THAN (MAXVALUE))'), 'DO 0')
  FROM days WHERE day >= (
    SELECT COALESCE(MAX(TRIM(BOTH '''' FROM partition_description)), '0001-01-01') FROM information_schema.partitions
    WHERE table_schema = %s AND table_name = %s AND partition_description <> 'MAXVALUE'
  )
)`, first.Format(time.DateOnly), first.AddDate(0, 0, o.Ahead).Format(time.DateOnly), alter, MySQLMaxPartition, schema, mysqlLiteral(o.Name.Table))},
		{SQL: "PREPARE cdc_relay_ddl FROM @cdc_relay_ddl"},
		{SQL: "EXECUTE cdc_relay_ddl"},
		{SQL: "DEALLOCATE PREPARE cdc_relay_ddl"},
	}
}

// MySQLPartition returns the name of the partition that holds the day of at, in UTC.
func MySQLPartition(at time.Time) string { return "p" + at.UTC().Format("20060102") }
