package config

import (
	"context"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/record"
)

// Source is the database whose committed rows are published: exactly one of the two is set.
type Source struct {
	// PostgreSQL 14 or newer, with wal_level = logical (from 19 on replica is enough).
	Postgres *Postgres `yaml:"postgres,omitempty" jsonschema_extras:"x-optional=true"`
	// MySQL 8.4 or newer (8.0.22 or newer with a warning) or MariaDB 10.11 or newer, with GTIDs and row-based binlogs.
	MySQL *MySQL `yaml:"mysql,omitempty" jsonschema_extras:"x-optional=true"`
}

// Database returns the name of the database that the connection string leads to; "" if that is not valid.
func (c *Config) Database() string { return c.Source.names().database }

// Server returns the host and port of the database that the connection string names first.
func (c *Config) Server() string { return c.Source.names().server }

// ConnString returns the connection string with the current password. Call it at every connect, and keep it out of logs and errors.
func (c *Config) ConnString(ctx context.Context) (string, error) {
	if c.Source.MySQL != nil {
		return c.Source.MySQL.ConnString(ctx)
	}
	return c.Source.Postgres.ConnString(ctx)
}

// Role returns the name of the user that the relay connects as.
func (c *Config) Role() string { return c.Source.names().role }

// names are parts of a connection string.
type names struct {
	server, database, role string
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

// TableNames returns the names of Tables, each with its schema.
func (c *Config) TableNames() []outbox.Name {
	list := make([]outbox.Name, len(c.Tables))
	for i := range c.Tables {
		list[i], _ = c.Source.table(c.Tables[i].Name) // valid by now
	}
	return list
}

// table parses a table's name: without a schema it is of public, or of MySQL's database, which is "" if the dsn is wrong.
func (s *Source) table(name string) (outbox.Name, error) {
	if s.MySQL != nil {
		return outbox.ParseMySQLName(name, s.MySQL.names.database)
	}
	return outbox.ParseName(name)
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
	// The table, schema.table. The default schema is public, on MySQL the dsn's database. Without quotes; no part may contain a dot.
	Name string `yaml:"name" jsonschema:"required,minLength=1,example=public.outbox"`
	// What each part of an event is made of, for a table that cdc-relay did not create. Default: the columns of the native table.
	Columns *Columns `yaml:"columns,omitempty" jsonschema_extras:"x-optional=true"`
	// What a NULL payload becomes: a null value, an empty value, or a malformed row, which is the default with columns.
	NullPayload outbox.NullPayload `yaml:"null_payload,omitempty" jsonschema:"enum=tombstone,enum=empty,enum=malformed" jsonschema_extras:"x-default=tombstone"`
	// CloudEvents with headers, CloudEvents as one JSON object, or the payload alone: see [records](records.md).
	Format record.Format `yaml:"format,omitempty" jsonschema:"enum=cloudevents,enum=cloudevents-json,enum=plain" jsonschema_extras:"x-default=cloudevents"`
	// Members of a JSON object that becomes the value, in place of the payload.
	Value []Field `yaml:"value,omitempty"`
	// Put a zero byte and schema_id as four bytes before the value, as Confluent's serializers do.
	ConfluentPrefix bool `yaml:"confluent_prefix,omitempty"`
	// More record headers. One that is NULL is left out.
	Headers []Field `yaml:"headers,omitempty"`
	// New names for headers from columns.headers. A name that the relay or headers sets makes the row malformed; with columns it gets the prefix x_.
	HeadersRename map[string]string `yaml:"headers_rename,omitempty"`
	// Members of columns.headers that become no headers.
	HeadersDrop []string `yaml:"headers_drop,omitempty"`
	// Publish only rows that match: parts or columns, each with a regular expression (RE2) for the whole value. NULL never matches.
	Only map[string]string `yaml:"only,omitempty"`
	// Time zone (IANA) of times without a zone, for a table with columns.
	TimeZone string `yaml:"time_zone,omitempty" jsonschema:"example=Europe/Berlin" jsonschema_extras:"x-default=UTC"`
	// The column that grows with each INSERT, for a table with columns. Default: an identity, serial or AUTO_INCREMENT column, else created_at, else occurred_at.
	OrderBy string `yaml:"order_by,omitempty" jsonschema:"example=seq"`
	// Experimental: mark published rows, for software that reads a status: see [migrating](migrate-from-polling.md).
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
		Members: record.Members{Rename: t.HeadersRename, Drop: t.HeadersDrop, Prefixed: t.Columns != nil},
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
	// The event's ID, by which consumers deduplicate: a column, or a template with one column.
	EventID *Part `yaml:"event_id,omitempty" jsonschema:"required" jsonschema_extras:"x-optional=true,x-example=id"`
	// The type of the event's entity.
	AggregateType *Part `yaml:"aggregate_type,omitempty" jsonschema_extras:"x-optional=true"`
	// The entity's ID; the record key unless partition_key is set.
	AggregateID *Part `yaml:"aggregate_id,omitempty" jsonschema_extras:"x-optional=true"`
	// The event's type. Required unless the format is plain.
	EventType *Part `yaml:"event_type,omitempty" jsonschema_extras:"x-optional=true,x-example=event_type"`
	// The tenant.
	TenantID *Part `yaml:"tenant_id,omitempty" jsonschema_extras:"x-optional=true"`
	// The topic; if it is NULL, routes decide.
	Topic *Part `yaml:"topic,omitempty" jsonschema_extras:"x-optional=true"`
	// The record key; if it is NULL, the aggregate ID.
	PartitionKey *Part `yaml:"partition_key,omitempty" jsonschema_extras:"x-optional=true"`
	// The payload's media type.
	ContentType *Part `yaml:"content_type,omitempty" jsonschema_extras:"x-optional=true"`
	// The payload's schema, a name or number.
	SchemaID *Part `yaml:"schema_id,omitempty" jsonschema_extras:"x-optional=true"`
	// The schema's version.
	SchemaVersion *Part `yaml:"schema_version,omitempty" jsonschema_extras:"x-optional=true"`
	// A column with a JSON object of headers.
	Headers *Part `yaml:"headers,omitempty" jsonschema_extras:"x-optional=true"`
	// The record's value. Required unless value is set.
	Payload *Part `yaml:"payload,omitempty" jsonschema_extras:"x-optional=true,x-example=payload"`
	// When the event happened, by the application's clock: ce_time.
	OccurredAt *Part `yaml:"occurred_at,omitempty" jsonschema_extras:"x-optional=true"`
	// A column: when the row was written, by the database's clock. replay, repair and retention go by it, or else by occurred_at.
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
	// Parts, columns, headers (`headers.name`) or `table`, each with a regular expression (RE2) for the whole value. All must match; NULL never matches. Absent: every row matches.
	Match map[string]string `yaml:"match,omitempty"`
	// The topic. ${name} is a part, a column, a header, `table`, or a named group of the expressions.
	Topic string `yaml:"topic" jsonschema:"required,minLength=1,example=orders.${tenant_id}"`
	// Replace each byte in ${name} that Kafka refuses by `_`.
	Sanitize bool `yaml:"sanitize,omitempty"`
	// The record key, in place of partition_key and aggregate_id. NULL: no key.
	Key *Part `yaml:"key,omitempty" jsonschema_extras:"x-optional=true,x-example=customer_id"`
	// The partition number, from 0. NULL or empty: the key decides. A number that the topic does not have makes the row malformed.
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
