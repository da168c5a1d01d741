package config

import "time"

// Source is the database whose committed rows are published.
type Source struct {
	// A PostgreSQL database, 14 or newer, with wal_level = logical.
	Postgres Postgres `yaml:"postgres" jsonschema:"required"`
}

// Postgres is a PostgreSQL source.
type Postgres struct {
	// Connection string, as a URL or as key=value pairs, straight to the server: poolers refuse replication. Read again at every connect.
	DSN Secret `yaml:"dsn" jsonschema:"required,minLength=1,example=postgres://relay@db.example.com:5432/orders"`
	// Password of the connection; it replaces one in dsn. Unlike there, no character of it needs escaping. Read again at every connect.
	Password Secret `yaml:"password,omitempty" jsonschema:"example=${file:/run/secrets/postgres}"`
	// Replication slot. Slots are per server, so the default carries the database's name.
	Slot string `yaml:"slot" jsonschema_extras:"x-default=cdc_relay_<database>"`
	// Publication that holds the tables.
	Publication string `yaml:"publication" jsonschema_extras:"x-default=cdc_relay_<database>"`
	// Whether `setup` makes the slot a failover slot (PostgreSQL 17 and newer), which survives the promotion of a standby. auto: where the server can.
	Failover Failover `yaml:"failover" jsonschema:"enum=auto,enum=on,enum=off,default=auto"`
	// How often the position is reported to the server unasked. Below 10s, because the relay sets wal_sender_timeout to that on its connection.
	StatusInterval time.Duration `yaml:"status_interval" jsonschema:"default=3s"`
}

// Failover says whether the slot is made as a failover slot.
type Failover string

// The settings of failover.
const (
	FailoverAuto Failover = "auto"
	FailoverOn   Failover = "on"
	FailoverOff  Failover = "off"
)

// Table is an outbox table.
type Table struct {
	// The table as the database spells it, schema.table; without a schema it is one of public. A part with a dot in it stands in double quotes.
	Name string `yaml:"name" jsonschema:"required,minLength=1,example=public.outbox"`
	// Which column holds which part of an event, for a table that was not made by this project. Parts that are not listed have no column. Absent: the columns of the native table.
	Columns *Columns `yaml:"columns,omitempty" jsonschema_extras:"x-optional=true"`
}

// Columns names the column for each part of an event.
type Columns struct {
	// The event's identity, which consumers deduplicate on.
	EventID string `yaml:"event_id" jsonschema:"required,minLength=1,example=id"`
	// The kind of thing the event is about.
	AggregateType string `yaml:"aggregate_type,omitempty"`
	// The thing the event is about, and the record key unless partition_key is set.
	AggregateID string `yaml:"aggregate_id,omitempty"`
	// What happened.
	EventType string `yaml:"event_type" jsonschema:"required,minLength=1,example=event_type"`
	// The tenant that the event belongs to.
	TenantID string `yaml:"tenant_id,omitempty"`
	// The topic; routes decide where it is NULL.
	Topic string `yaml:"topic,omitempty"`
	// The record key; the aggregate id where it is NULL.
	PartitionKey string `yaml:"partition_key,omitempty"`
	// The payload's media type.
	ContentType string `yaml:"content_type,omitempty"`
	// The name of the payload's schema.
	SchemaID string `yaml:"schema_id,omitempty"`
	// The version of that schema.
	SchemaVersion string `yaml:"schema_version,omitempty"`
	// A JSON object of further record headers.
	Headers string `yaml:"headers,omitempty"`
	// The record's value.
	Payload string `yaml:"payload" jsonschema:"required,minLength=1,example=payload"`
	// When it happened, by the application's clock.
	OccurredAt string `yaml:"occurred_at,omitempty"`
	// When the row was written.
	CreatedAt string `yaml:"created_at,omitempty"`
}

// Map returns the columns that are set, by the name of their part; nil for a nil receiver.
func (c *Columns) Map() map[string]string {
	if c == nil {
		return nil
	}
	m := map[string]string{
		"event_id": c.EventID, "aggregate_type": c.AggregateType, "aggregate_id": c.AggregateID,
		"event_type": c.EventType, "tenant_id": c.TenantID, "topic": c.Topic, "partition_key": c.PartitionKey,
		"content_type": c.ContentType, "schema_id": c.SchemaID, "schema_version": c.SchemaVersion,
		"headers": c.Headers, "payload": c.Payload, "occurred_at": c.OccurredAt, "created_at": c.CreatedAt,
	}
	for part, column := range m {
		if column == "" {
			delete(m, part)
		}
	}
	return m
}

// Route sends rows to a topic.
type Route struct {
	// Parts of an event, or columns, and the regular expressions (RE2) that their whole text must match. All must match, and NULL matches nothing; without any, every row matches.
	Match map[string]string `yaml:"match,omitempty"`
	// The topic. ${name} stands for a part of the event, for a column, or for a named group of the expressions.
	Topic string `yaml:"topic" jsonschema:"required,minLength=1,example=orders.${tenant_id}"`
}

// Record says how a row becomes a record.
type Record struct {
	// The record's layout: the payload as value, everything else as CloudEvents headers.
	Format string `yaml:"format" jsonschema:"enum=cloudevents-binary,default=cloudevents-binary"`
	// The CloudEvents source (header ce_source).
	Source string `yaml:"source,omitempty" jsonschema_extras:"x-default=/<database>/<table>"`
}
