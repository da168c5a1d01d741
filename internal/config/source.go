package config

import (
	"regexp"
	"strings"
)

// Source is the database whose committed rows are published: exactly one of the two is set.
type Source struct {
	// A PostgreSQL database, 14 or newer, with wal_level = logical (from 19 on replica is enough). Not together with mysql.
	Postgres *Postgres `yaml:"postgres,omitempty" jsonschema_extras:"x-optional=true"`
	// A database of MySQL (8.4 or newer; 8.0.22 or newer with a warning) or MariaDB (10.11 or newer), with GTIDs and row-based binlogs in full. It needs a checkpoint. Not together with postgres.
	MySQL *MySQL `yaml:"mysql,omitempty" jsonschema_extras:"x-optional=true"`
}

// Database returns the name of the database that the connection string leads to.
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
	for i, t := range c.Tables {
		list[i] = c.Source.qualified(t.Name)
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
	// Maps the parts of an event to columns, for a table that was not created by cdc-relay. A part that is not listed has no column. Default: the columns of the native table.
	Columns *Columns `yaml:"columns,omitempty" jsonschema_extras:"x-optional=true"`
}

// Columns names the column for each part of an event.
type Columns struct {
	// The event's ID, by which consumers deduplicate.
	EventID string `yaml:"event_id" jsonschema:"required,minLength=1,example=id"`
	// The type of the entity that the event is about.
	AggregateType string `yaml:"aggregate_type,omitempty"`
	// The ID of that entity, and the record key unless partition_key is set.
	AggregateID string `yaml:"aggregate_id,omitempty"`
	// The type of the event.
	EventType string `yaml:"event_type" jsonschema:"required,minLength=1,example=event_type"`
	// The tenant that the event belongs to.
	TenantID string `yaml:"tenant_id,omitempty"`
	// The topic; if it is NULL, routes decide.
	Topic string `yaml:"topic,omitempty"`
	// The record key; if it is NULL, the aggregate ID.
	PartitionKey string `yaml:"partition_key,omitempty"`
	// The payload's media type.
	ContentType string `yaml:"content_type,omitempty"`
	// The name of the payload's schema.
	SchemaID string `yaml:"schema_id,omitempty"`
	// The version of that schema.
	SchemaVersion string `yaml:"schema_version,omitempty"`
	// A JSON object with more record headers.
	Headers string `yaml:"headers,omitempty"`
	// The record's value.
	Payload string `yaml:"payload" jsonschema:"required,minLength=1,example=payload"`
	// When the event happened, by the application's clock.
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
	// Parts of an event or columns, each with a regular expression (RE2) that must match the whole value. All must match; NULL never matches. Without expressions every row matches.
	Match map[string]string `yaml:"match,omitempty"`
	// The topic. ${name} is replaced by a part of the event, a column, or a named group of the expressions.
	Topic string `yaml:"topic" jsonschema:"required,minLength=1,example=orders.${tenant_id}"`
}

// Record says how a row becomes a record.
type Record struct {
	// The CloudEvents source (header ce_source).
	Source string `yaml:"source,omitempty" jsonschema_extras:"x-default=/<database>/<table>"`
}
