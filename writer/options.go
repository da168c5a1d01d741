package writer

import "fmt"

const (
	defaultTable      = "outbox"
	defaultMaxPayload = 1 << 20

	// maxMaxPayload is what goes through every driver. Through the simple protocol a payload is part of the
	// statement as hex, which the server holds twice in a buffer of less than 1 GB (MaxAllocSize in
	// src/include/utils/memutils.h).
	maxMaxPayload = 128 << 20
)

// Option changes what [New] makes.
type Option func(*config) error

type config struct {
	table         string
	maxPayload    int
	aggregateType string
	payload       PayloadColumn
	onDuplicate   OnDuplicate
}

// PayloadColumn is the type of the table's payload column.
type PayloadColumn uint8

const (
	// PayloadBytea keeps the bytes, whatever they are. It is the default: bytea, LONGBLOB on MySQL and MariaDB.
	PayloadBytea PayloadColumn = iota
	// PayloadText takes UTF-8 text, on PostgreSQL without U+0000: text, LONGTEXT on MySQL and MariaDB.
	PayloadText
	// PayloadJSONB takes JSON, on PostgreSQL without U+0000: jsonb, JSON on MySQL and MariaDB. The database
	// keeps what it says, not its bytes: spaces, the order of keys and repeated keys are lost (but on MariaDB).
	PayloadJSONB
)

// OnDuplicate is what becomes of an event that the table holds already.
type OnDuplicate uint8

const (
	// FailOnDuplicate answers [ErrDuplicate]. It is the default.
	FailOnDuplicate OnDuplicate = iota
	// SkipDuplicate leaves the row that is there as it is and goes on, without a word.
	SkipDuplicate
)

// WithTable names the outbox table; the default is "outbox". A name is "table", which the connection's
// search_path resolves, or "schema.table"; on MySQL and MariaDB it is a table of the connection's database,
// or "database.table". It is taken as the database stores it: letters keep their case, and a part that holds
// a dot stands in double quotes, as in SQL, on MySQL and MariaDB in backticks.
func WithTable(name string) Option {
	return func(c *config) error {
		c.table = name
		return nil
	}
}

// WithMaxPayload sets how many bytes a payload may have: 1 to 134217728 (128 MiB), 1048576 (1 MiB) by
// default. Keep it below the topic's max.message.bytes, or the relay cannot publish what was written.
func WithMaxPayload(bytes int) Option {
	return func(c *config) error {
		if bytes < 1 || bytes > maxMaxPayload {
			return fmt.Errorf("payload limit is %d bytes: give WithMaxPayload 1 to %d", bytes, maxMaxPayload)
		}
		c.maxPayload = bytes
		return nil
	}
}

// WithDefaultAggregateType sets the aggregate type of events that have none of their own. The caller's
// events are left as they are.
func WithDefaultAggregateType(name string) Option {
	return func(c *config) error {
		if reason := checkText(name); name == "" || reason != "" {
			return fmt.Errorf("default aggregate type %q: give WithDefaultAggregateType a name in UTF-8 without U+0000", name)
		}
		c.aggregateType = name
		return nil
	}
}

// WithOnDuplicate says what becomes of an event that the table holds already; the default is
// [FailOnDuplicate]. An event is known by the table's key. That is its id and the time inside, so that events
// whose ids are not UUIDv7 are known in a table without partitions only.
//
// On MySQL and MariaDB [SkipDuplicate] needs the rights SELECT and UPDATE on the column event_id.
func WithOnDuplicate(d OnDuplicate) Option {
	return func(c *config) error {
		if d > SkipDuplicate {
			return fmt.Errorf("behaviour %d on duplicates is unknown: give WithOnDuplicate FailOnDuplicate or SkipDuplicate", d)
		}
		c.onDuplicate = d
		return nil
	}
}

// WithPayloadColumn says that the table's payload column is not bytea, but as 'cdc-relay schema print
// --payload' makes it. Payloads that it does not take are refused.
func WithPayloadColumn(p PayloadColumn) Option {
	return func(c *config) error {
		if p > PayloadJSONB {
			return fmt.Errorf("payload column %d is unknown: give WithPayloadColumn PayloadBytea, PayloadText or PayloadJSONB", p)
		}
		c.payload = p
		return nil
	}
}
