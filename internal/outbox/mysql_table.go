package outbox

import (
	"fmt"
	"strings"
	"time"
)

// MySQLMaxPartition is the partition for rows after the last day, so that a missing partition never fails an insert.
const MySQLMaxPartition = "pmax"

// MySQLTextLength is the length in characters of the native table's text columns on MySQL and MariaDB. It allows an index
// on two of them: a key of InnoDB has up to 3072 bytes, a character of utf8mb4 up to 4.
const MySQLTextLength = 255

// MySQLTable returns the script that creates the native table on MySQL 8.4 and 9 and on MariaDB 10.11 and 11, with
// partitions for From's day, which also takes earlier rows, for Ahead more days, and for later rows. The owner of the
// table runs it, on one connection. If the table exists, missing days are split from its last partition.
func MySQLTable(o TableOptions) Script {
	o.complete()
	s := Script{
		Name: "create_" + fileName(o.Name.Table),
		Up:   []Statement{createMySQLTable(&o)},
		Down: []Statement{{Comment: "This loses the events that are not published yet.", SQL: "DROP TABLE IF EXISTS " + o.Name.MySQL()}},
	}
	if o.Partition == PartitionDaily {
		s.Up = append(s.Up, addMySQLPartitions(&o)...)
	}
	return s
}

// createMySQLTable leaves nothing to the database's defaults.
//
// event_id is VARBINARY because the binlog strips trailing zero bytes of BINARY. headers is text because MySQL does not
// keep the formatting of JSON columns.
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

// addMySQLPartitions splits the last partition of a table that existed. MySQL has no statement that does so only if
// necessary, so the statement is generated and then executed.
func addMySQLPartitions(o *TableOptions) []Statement {
	first := o.From.UTC().Truncate(24 * time.Hour)
	schema := "DATABASE()"
	if o.Name.Schema != "" {
		schema = mysqlLiteral(o.Name.Schema)
	}
	alter := mysqlLiteral("ALTER TABLE " + o.Name.MySQL() + " REORGANIZE PARTITION " + MySQLMaxPartition + " INTO (")
	return []Statement{
		{
			Comment: fmt.Sprintf("If the table existed: daily partitions (UTC) to %s, split from the last partition.\n"+
				"Writers wait for it, briefly if the last partition is empty.",
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

// MySQLPartition returns the name of the partition for the day (UTC) of at.
func MySQLPartition(at time.Time) string { return "p" + at.UTC().Format("20060102") }
