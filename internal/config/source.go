package config

import (
	"regexp"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/record"
)

// Source is the database whose committed rows are published: exactly one of the two is set.
type Source struct {
	// A PostgreSQL database, 14 or newer, with wal_level = logical (from 19 on replica is enough). Not together with mysql.
	Postgres *Postgres `yaml:"postgres,omitempty" jsonschema_extras:"x-optional=true"`
	// A database of MySQL (8.4 or newer; 8.0.22 or newer with a warning) or MariaDB (10.11 or newer), with GTIDs and row-based binlogs in full. It needs a checkpoint. Not together with postgres.
	MySQL *MySQL `yaml:"mysql,omitempty" jsonschema_extras:"x-optional=true"`
}

// Database returns the name of the database that the connection string leads to; "" if that is not valid.
func (c *Config) Database() string { return c.Source.names().database }

// Role returns the name of the user that the relay connects as.
func (c *Config) Role() string { return c.Source.names().role }

// names are parts of a connection string.
type names struct {
	database, role string
	// plain is the first other machine to which the connection may be in plain text, or "".
	plain string
}

func (s *Source) names() names {
	switch {
	case s.MySQL != nil:
		return s.MySQL.names
	case s.Postgres != nil:
		return s.Postgres.names
	default:
		return names{}
	}
}

// TableNames returns the names of Tables, each with its schema: "schema.table", with quotes around a part that
// holds a dot. The quotes are the database's own: double ones on PostgreSQL, backticks on MySQL and MariaDB.
func (c *Config) TableNames() []string {
	list := make([]string, len(c.Tables))
	for i := range c.Tables {
		list[i] = c.Source.qualified(c.Tables[i].Name)
	}
	return list
}

// quote returns the quotation mark of names.
func (s *Source) quote() string {
	if s.MySQL != nil {
		return "`"
	}
	return `"`
}

// part returns an expression for a quoted part of a table's name.
func (s *Source) part() string { return strings.ReplaceAll(`"([^"]|"")+"`, `"`, s.quote()) }

// isTable reports whether a name is a valid table name.
func (s *Source) isTable(name string) bool {
	one := `(` + s.part() + `|[^.]+)`
	return regexp.MustCompile(`^` + one + `(\.` + one + `)?$`).MatchString(name)
}

// qualified returns a table's name with its schema: without one it is of public, or of MySQL's database.
func (s *Source) qualified(name string) string {
	if strings.Contains(regexp.MustCompile(s.part()).ReplaceAllString(name, "x"), ".") {
		return name
	}
	schema := "public"
	if s.MySQL != nil {
		if schema = s.MySQL.names.database; schema == "" {
			return name // the dsn is wrong
		}
	}
	if q := s.quote(); strings.ContainsAny(schema, "."+q) {
		schema = q + strings.ReplaceAll(schema, q, q+q) + q
	}
	return schema + "." + name
}

func (d *document) source(s *Source) {
	switch {
	case s.Postgres != nil && s.MySQL != nil:
		d.report("source.mysql", "keep one of them: a relay reads one database", "is set beside source.postgres")
	case s.Postgres != nil:
		d.postgres(s.Postgres)
	case s.MySQL != nil:
		d.mysql(s.MySQL)
	case !d.badBelow("source"):
		d.report("source", "set source.postgres.dsn, such as postgres://relay@db.example.com:5432/orders, "+
			"or source.mysql.dsn, such as relay@tcp(db.example.com:3306)/orders", "names no database")
	}
}

// Table is an outbox table.
type Table struct {
	// The table as the database spells it, schema.table. The default schema is public, on MySQL the dsn's database. Put a part that contains a dot in double quotes, on MySQL in backticks.
	Name string `yaml:"name" jsonschema:"required,minLength=1,example=public.outbox"`
	// What the parts of an event are made of, for a table that was not created by cdc-relay: columns as a rule, see [parts of an event](#parts-of-an-event). A part that is not listed has nothing. Default: the columns of the native table.
	Columns *Columns `yaml:"columns,omitempty" jsonschema_extras:"x-optional=true"`
	// What a NULL payload becomes: a record with a null value, one with an empty value, or a malformed row. Default: a tombstone in the native table, malformed in one with columns.
	NullPayload outbox.NullPayload `yaml:"null_payload,omitempty" jsonschema:"enum=tombstone,enum=empty,enum=malformed"`
	// How an event stands in a record: CloudEvents with attributes as headers (cloudevents), CloudEvents as one JSON object (cloudevents-json), or the payload with the headers listed here alone (plain). See [formats](records.md#formats).
	Format record.Format `yaml:"format,omitempty" jsonschema:"enum=cloudevents,enum=cloudevents-json,enum=plain" jsonschema_extras:"x-default=cloudevents"`
	// The members of a JSON object that is the value, in this order, in place of the payload.
	Value []Field `yaml:"value,omitempty"`
	// Put a zero byte and schema_id, a number, as four bytes in front of the value, as the serializers of Confluent's schema registry do.
	ConfluentPrefix bool `yaml:"confluent_prefix,omitempty"`
	// More record headers, each a part of an event. One that is NULL is left out.
	Headers []Field `yaml:"headers,omitempty"`
	// What goes before the names of the members of columns.headers, except those that are renamed.
	HeadersPrefix string `yaml:"headers_prefix,omitempty"`
	// New names of members of columns.headers.
	HeadersRename map[string]string `yaml:"headers_rename,omitempty"`
	// Members of columns.headers that become no headers.
	HeadersDrop []string `yaml:"headers_drop,omitempty"`
	// What becomes of a member of columns.headers that would be a header of the relay's own (ce_..., content-type) or of headers: the row is malformed, the name gets x_ in front, or it is left out. Default: malformed.
	HeadersConflict record.Conflict `yaml:"headers_conflict,omitempty" jsonschema:"enum=malformed,enum=rename,enum=drop"`
	// Which rows are published: parts of an event or columns, each with a regular expression (RE2) that must match the whole value. All must match; NULL never matches. The other rows are left out and counted in rows_left_out_total.
	Only map[string]string `yaml:"only,omitempty"`
	// The time zone (IANA) of the clocks that wrote the table's times whose type has no zone: timestamp, on MySQL DATETIME. Records have them in UTC. A time that clocks show twice is the first; one that they jump over is the moment of the change. For a table with columns. Default: UTC.
	TimeZone string `yaml:"time_zone,omitempty" jsonschema:"example=Europe/Berlin"`
	// The column that grows with each INSERT, by which `setup --backfill`, repair and replay read the rows. For a table with columns. Default: a number that the database counts up (identity, serial, AUTO_INCREMENT), or else created_at, or else occurred_at.
	OrderBy string `yaml:"order_by,omitempty" jsonschema:"example=seq"`
	// Mark rows whose event is published, for software that reads a status. Default: the relay writes nothing into the table. See [write-back](operations.md#marking-rows).
	WriteBack *WriteBack `yaml:"write_back,omitempty" jsonschema_extras:"x-optional=true"`
}

// Zone is where the clocks were that wrote times without a zone; nil is UTC.
func (t *Table) Zone() *cdc.Zone {
	z, _ := cdc.LoadZone(t.TimeZone) // valid by now, or ""
	return z
}

// Shape returns what the table's records are made of.
func (t *Table) Shape() *record.Shape {
	return &record.Shape{
		Format: t.Format, Value: fields(t.Value), Confluent: t.ConfluentPrefix, Headers: fields(t.Headers),
		Members: record.Members{Prefix: t.HeadersPrefix, Rename: t.HeadersRename, Drop: t.HeadersDrop, Conflict: t.HeadersConflict},
	}
}

func fields(list []Field) []record.Field {
	var all []record.Field
	for _, f := range list {
		all = append(all, record.Field{Name: f.Name, Part: outbox.Part(f.Made)})
	}
	return all
}

// Columns says what each part of an event is made of.
type Columns struct {
	// The event's ID, by which consumers deduplicate: a column, or a text with one column behind it.
	EventID *Part `yaml:"event_id,omitempty" jsonschema:"required" jsonschema_extras:"x-optional=true,x-example=id"`
	// The type of the entity that the event is about.
	AggregateType *Part `yaml:"aggregate_type,omitempty" jsonschema_extras:"x-optional=true"`
	// The ID of that entity, and the record key unless partition_key is set.
	AggregateID *Part `yaml:"aggregate_id,omitempty" jsonschema_extras:"x-optional=true"`
	// The type of the event. Required unless the format is plain.
	EventType *Part `yaml:"event_type,omitempty" jsonschema_extras:"x-optional=true,x-example=event_type"`
	// The tenant that the event belongs to.
	TenantID *Part `yaml:"tenant_id,omitempty" jsonschema_extras:"x-optional=true"`
	// The topic; if it is NULL, routes decide.
	Topic *Part `yaml:"topic,omitempty" jsonschema_extras:"x-optional=true"`
	// The record key; if it is NULL, the aggregate ID.
	PartitionKey *Part `yaml:"partition_key,omitempty" jsonschema_extras:"x-optional=true"`
	// The payload's media type.
	ContentType *Part `yaml:"content_type,omitempty" jsonschema_extras:"x-optional=true"`
	// The name of the payload's schema.
	SchemaID *Part `yaml:"schema_id,omitempty" jsonschema_extras:"x-optional=true"`
	// The version of that schema.
	SchemaVersion *Part `yaml:"schema_version,omitempty" jsonschema_extras:"x-optional=true"`
	// A JSON object with more record headers: a column.
	Headers *Part `yaml:"headers,omitempty" jsonschema_extras:"x-optional=true"`
	// The record's value. Required unless there is a value.
	Payload *Part `yaml:"payload,omitempty" jsonschema_extras:"x-optional=true,x-example=payload"`
	// When the event happened, by the application's clock.
	OccurredAt *Part `yaml:"occurred_at,omitempty" jsonschema_extras:"x-optional=true"`
	// When the row was written: a column.
	CreatedAt *Part `yaml:"created_at,omitempty" jsonschema_extras:"x-optional=true"`
}

// Part says what a part of an event is made of. A text alone is a column.
type Part struct {
	Made `yaml:",inline"`
}

// Field is a part of an event under a name.
type Field struct {
	// The name.
	Name string `yaml:"name" jsonschema:"required,minLength=1"`
	Made `yaml:",inline"`
}

// Made says what a part of an event is made of.
type Made struct {
	// A column.
	Column string `yaml:"column,omitempty"`
	// How the column holds a payload of bytes as text.
	Encoding string `yaml:"encoding,omitempty" jsonschema:"enum=base64,enum=hex"`
	// The same text for all rows.
	Const string `yaml:"const,omitempty"`
	// A text in which ${name} is replaced by a column.
	Template string `yaml:"template,omitempty" jsonschema:"example=${tenant}/${order_id}"`
	// A column that holds a JSON document.
	JSON string `yaml:"json,omitempty"`
	// The path to a value in that document. Default: the whole document.
	Path string `yaml:"path,omitempty" jsonschema:"example=$.event.type"`
}

// MarshalYAML writes a column alone as text.
func (p Part) MarshalYAML() (any, error) {
	if p.Made == (Made{Column: p.Column}) {
		return p.Column, nil
	}
	return p.Made, nil
}

// column is the column that the part is; "" for a nil receiver, and if it is none.
func (p *Part) column() string {
	if p == nil {
		return ""
	}
	return p.Column
}

// Parts returns the parts that are set, by their names; nil for a nil receiver.
func (c *Columns) Parts() map[string]outbox.Part {
	if c == nil {
		return nil
	}
	parts := map[string]outbox.Part{}
	for name, part := range map[string]*Part{
		"event_id": c.EventID, "aggregate_type": c.AggregateType, "aggregate_id": c.AggregateID,
		"event_type": c.EventType, "tenant_id": c.TenantID, "topic": c.Topic, "partition_key": c.PartitionKey,
		"content_type": c.ContentType, "schema_id": c.SchemaID, "schema_version": c.SchemaVersion,
		"headers": c.Headers, "payload": c.Payload, "occurred_at": c.OccurredAt, "created_at": c.CreatedAt,
	} {
		if part != nil {
			parts[name] = outbox.Part(part.Made)
		}
	}
	return parts
}

// Route sends rows to a topic.
type Route struct {
	// Parts of an event, columns, members of the part headers (`headers.name`), or `table` (the table's name without its schema), each with a regular expression (RE2) that must match the whole value. All must match; NULL never matches. Without expressions every row matches.
	Match map[string]string `yaml:"match,omitempty"`
	// The topic. ${name} is replaced by a part of the event, a column, a member of headers, `table`, or a named group of the expressions.
	Topic string `yaml:"topic" jsonschema:"required,minLength=1,example=orders.${tenant_id}"`
	// Replace each byte that Kafka refuses in a topic's name by `_` in what stands for ${name}. Two names may become one.
	Sanitize bool `yaml:"sanitize,omitempty"`
	// The record key of the route's rows, in place of partition_key and aggregate_id. A name in it is a column's. NULL is no key, and neither is an empty text unless the format is plain.
	Key *Part `yaml:"key,omitempty" jsonschema_extras:"x-optional=true,x-example=customer_id"`
	// The number of the partition of the route's rows, from 0. NULL or empty leaves it to the key. A row with a number that the topic does not have, or with another text, is malformed. A name in it is a column's.
	Partition *Part `yaml:"partition,omitempty" jsonschema_extras:"x-optional=true,x-example=shard"`
}

// Placement returns what key and partition are made of; nil is as in [Route].
func (r *Route) Placement() (key, partition *outbox.Part) {
	if r.Key != nil {
		key = (*outbox.Part)(&r.Key.Made)
	}
	if r.Partition != nil {
		partition = (*outbox.Part)(&r.Partition.Made)
	}
	return key, partition
}

// Record says how a row becomes a record.
type Record struct {
	// The CloudEvents source (header ce_source).
	Source string `yaml:"source,omitempty" jsonschema_extras:"x-default=/<database>/<table>"`
}
