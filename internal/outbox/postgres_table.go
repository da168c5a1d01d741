package outbox

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"
)

// PartitionSchema is the schema of the partitions. It is not the application's, because tools that compare schemas drop
// unknown tables.
const PartitionSchema = "cdc_relay"

// PayloadType is the type of the payload column.
type PayloadType string

// The payload types.
const (
	// PayloadBytea takes any bytes. It is the default. On MySQL and MariaDB it is LONGBLOB.
	PayloadBytea PayloadType = "bytea"
	// PayloadText is readable in psql. On MySQL and MariaDB it is LONGTEXT.
	PayloadText PayloadType = "text"
	// PayloadJSONB can be queried; the database does not keep its formatting. On MySQL and MariaDB it is JSON, which
	// MariaDB stores as text, unchanged.
	PayloadJSONB PayloadType = "jsonb"
)

// Partition is how the table is partitioned.
type Partition string

// The kinds of partitioning.
const (
	// PartitionDaily has one partition for each day (UTC) of created_at, so that old events are removed by dropping a
	// partition. It is the default.
	PartitionDaily Partition = "daily"
	// PartitionNone is a plain table with event_id as its primary key.
	PartitionNone Partition = "none"
)

// TableOptions describe a table to create.
type TableOptions struct {
	Name      Name
	Payload   PayloadType // "" is PayloadBytea
	Partition Partition   // "" is PartitionDaily
	// From is a time on the day (UTC) of the first partition, usually now.
	From time.Time
	// Ahead is how many days after From get a partition too.
	Ahead int
}

// complete fills in the defaults.
func (o *TableOptions) complete() {
	o.Payload, o.Partition = cmp.Or(o.Payload, PayloadBytea), cmp.Or(o.Partition, PartitionDaily)
}

// PostgresTable returns the script that creates the native table on PostgreSQL 14 to 18, with partitions for From's day
// and Ahead more days, and a DEFAULT partition, so that a missing partition never fails an insert. The owner of the table
// runs it, and needs CREATE on the database for PartitionSchema.
func PostgresTable(o TableOptions) Script {
	o.complete()
	s := Script{
		Name: "create_" + fileName(o.Name.Table),
		Up:   []Statement{createTable(&o)},
		Down: []Statement{{Comment: "This loses the events that are not published yet.", SQL: "DROP TABLE IF EXISTS " + o.Name.SQL()}},
	}
	if o.Partition == PartitionDaily {
		s.Up = append(s.Up, Statement{SQL: "CREATE SCHEMA IF NOT EXISTS " + PartitionSchema}, createPartitions(&o))
		s.Up = append(s.Up, postgresMaintenance(o.Name)...)
		s.Down = append(append(s.Down, dropMaintenance(o.Name)...), dropPartitionSchema())
	}
	return s
}

func createTable(o *TableOptions) Statement {
	key, partition := "event_id", ""
	if o.Partition == PartitionDaily {
		key, partition = "event_id, created_at", " PARTITION BY RANGE (created_at)"
	}
	return Statement{
		Comment: "Append only: applications insert, cdc-relay reads the inserts from the WAL.",
		SQL: "CREATE TABLE IF NOT EXISTS " + o.Name.SQL() + ` (
  event_id uuid NOT NULL,
  aggregate_type text NOT NULL,
  aggregate_id text NOT NULL,
  event_type text NOT NULL,
  tenant_id text,
  topic text,
  partition_key text,
  content_type text NOT NULL DEFAULT 'application/json',
  schema_id text,
  schema_version int,
  headers jsonb,
  payload ` + string(o.Payload) + `,
  occurred_at timestamptz NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (` + key + `)
)` + partition,
	}
}

// createPartitions creates each partition as a separate table, with a CHECK on its bounds, and then attaches it:
// PARTITION OF would take an ACCESS EXCLUSIVE lock on the table, which blocks writers. DEFAULT comes last, so that
// attaching the others does not scan it.
func createPartitions(o *TableOptions) Statement {
	midnight := o.From.UTC().Truncate(24 * time.Hour)
	prefix := partitionPrefix(o.Name, len("20060102"))
	return Statement{
		Comment: fmt.Sprintf("Daily partitions (UTC) from %s, %d days ahead, and one for what falls outside.\n"+
			"Created separately and then attached, which does not block writers.",
			midnight.Format(time.DateOnly), o.Ahead),
		SQL: block(fmt.Sprintf(`DECLARE
  outbox text := %s;
  since timestamptz;
  part text;
BEGIN
  FOR day IN 0..%d LOOP
    since := timestamptz '%s 00:00+00' + day * interval '24 hours';
    part := %s || quote_ident(%s || to_char(since AT TIME ZONE 'UTC', 'YYYYMMDD'));
    CONTINUE WHEN EXISTS (SELECT FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid
      WHERE inhparent = outbox::regclass AND right(relname, 9) = to_char(since AT TIME ZONE 'UTC', '_YYYYMMDD'));
    EXECUTE format('CREATE TABLE IF NOT EXISTS %%s (LIKE %%s INCLUDING ALL EXCLUDING IDENTITY)', part, outbox);
    EXECUTE format('ALTER TABLE %%s ADD CONSTRAINT bound CHECK (created_at >= %%L AND created_at < %%L)',
      part, since, since + interval '24 hours');
    EXECUTE format('ALTER TABLE %%s ATTACH PARTITION %%s FOR VALUES FROM (%%L) TO (%%L)',
      outbox, part, since, since + interval '24 hours');
    EXECUTE format('ALTER TABLE %%s DROP CONSTRAINT bound', part);
  END LOOP;
  part := %s || quote_ident(%s);
  IF NOT EXISTS (SELECT FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid
      WHERE inhparent = outbox::regclass AND pg_get_expr(relpartbound, c.oid) = 'DEFAULT') THEN
    EXECUTE format('CREATE TABLE IF NOT EXISTS %%s (LIKE %%s INCLUDING ALL EXCLUDING IDENTITY)', part, outbox);
    EXECUTE format('ALTER TABLE %%s ATTACH PARTITION %%s DEFAULT', outbox, part);
  END IF;
END`,
			literal(o.Name.SQL()), o.Ahead, midnight.Format(time.DateOnly),
			literal(PartitionSchema+"."), literal(prefix), literal(PartitionSchema+"."), literal(prefix+"default"))),
	}
}

// dropMaintenance drops the function that maintains the partitions. IF EXISTS covers a schema that does not exist.
func dropMaintenance(table Name) []Statement {
	return []Statement{{SQL: "DROP FUNCTION IF EXISTS " + PostgresRoutine(table).SQL() + "(text, timestamp)"}}
}

// dropPartitionSchema drops the schema unless another outbox table uses it.
func dropPartitionSchema() Statement {
	return Statement{SQL: block(`BEGIN
  DROP SCHEMA IF EXISTS ` + PartitionSchema + `;
EXCEPTION WHEN dependent_objects_still_exist OR insufficient_privilege THEN
  NULL; -- another outbox table has its partitions there, or another role owns the schema
END`)}
}

// partitionPrefix returns the prefix of a table's partitions. No two tables share one: it is schema_table_ if neither name has an
// underscore and a name with a rest of that length is not too long, and has a checksum of both names otherwise.
func partitionPrefix(n Name, rest int) string {
	prefix := n.Schema + "_" + n.Table
	if len(prefix)+len("_") <= maxIdentifier-rest && strings.Count(prefix, "_") == 1 {
		return prefix + "_"
	}
	sum := sha256.Sum256([]byte(n.Schema + "\x00" + n.Table))
	room := maxIdentifier - rest - len("_01234567_")
	return strings.ToValidUTF8(prefix[:min(len(prefix), room)], "") + fmt.Sprintf("_%x_", sum[:4])
}

// fileName replaces characters that are not safe in a file name.
func fileName(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, s)
}
