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
}

// PayloadColumn is the type of the table's payload column.
type PayloadColumn uint8

const (
	// PayloadBytea keeps the bytes, whatever they are. It is the default.
	PayloadBytea PayloadColumn = iota
	// PayloadText takes UTF-8 text without U+0000.
	PayloadText
	// PayloadJSONB takes JSON without U+0000. The database keeps what it says, not its bytes: spaces, the
	// order of keys and repeated keys are lost.
	PayloadJSONB
)

// WithTable names the outbox table; the default is "outbox". A name is "table", which the connection's
// search_path resolves, or "schema.table". It is taken as the database stores it: letters keep their case,
// and a part that holds a dot stands in double quotes, as in SQL.
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
