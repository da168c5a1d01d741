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
// table runs it. If the table exists, nothing is changed: the relay and `cdc-relay retention run` add days.
func MySQLTable(o TableOptions) Script {
	o.complete()
	return Script{
		Name: "create_" + fileName(o.Name.Table),
		Up:   []Statement{createMySQLTable(&o)},
		Down: []Statement{{Comment: "This loses the events that are not published yet.", SQL: "DROP TABLE IF EXISTS " + o.Name.MySQL()}},
	}
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

// MySQLPartition returns the name of the partition for the day (UTC) of at.
func MySQLPartition(at time.Time) string { return "p" + at.UTC().Format("20060102") }
