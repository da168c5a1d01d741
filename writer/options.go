package writer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

const (
	defaultTable      = "outbox"
	defaultMaxPayload = 1 << 20

	// maxMaxPayload works with every driver. With the simple protocol a payload is part of the statement as hex, which the
	// server keeps twice in a buffer of less than 1 GB (MaxAllocSize in src/include/utils/memutils.h).
	maxMaxPayload = 128 << 20
)

// Option is an option of [New].
type Option func(*config) error

type config struct {
	table       string
	maxPayload  int
	payload     PayloadColumn
	onDuplicate OnDuplicate
	hooks
}

// hooks are the caller's functions.
type hooks struct {
	chain        []Interceptor
	copyPayloads bool
	observers    []func(context.Context, []*Event)
	now          func() time.Time
	newID        func() (uuid.UUID, error)
	attempts     int // of Run
	hookErrors   func(context.Context, error)
}

// PayloadColumn is the type of the table's payload column.
type PayloadColumn uint8

const (
	// PayloadBytea stores any bytes. It is the default: bytea, LONGBLOB on MySQL and MariaDB.
	PayloadBytea PayloadColumn = iota
	// PayloadText stores UTF-8 text, on PostgreSQL without U+0000: text, LONGTEXT on MySQL and MariaDB.
	PayloadText
	// PayloadJSONB stores JSON, on PostgreSQL without U+0000: jsonb, JSON on MySQL and MariaDB. The database normalizes
	// it: whitespace, the order of keys and duplicate keys are lost, except on MariaDB.
	PayloadJSONB
)

// OnDuplicate is what Append does with an event that is already in the table.
type OnDuplicate uint8

const (
	// FailOnDuplicate returns [ErrDuplicate]. It is the default.
	FailOnDuplicate OnDuplicate = iota
	// SkipDuplicate keeps the existing row and continues without an error.
	SkipDuplicate
)

// WithTable sets the outbox table; the default is "outbox". The name is "table", resolved with the connection's
// search_path, or "schema.table"; on MySQL and MariaDB "table" in the connection's database, or "database.table". The
// case of letters matters. Put a part that contains a dot in double quotes, on MySQL and MariaDB in backticks.
func WithTable(name string) Option {
	return func(c *config) error {
		c.table = name
		return nil
	}
}

// WithMaxPayload sets the maximum payload size in bytes: 1 to 134217728 (128 MiB), by default 1048576 (1 MiB). Keep it
// below the topic's max.message.bytes, or the relay cannot publish the event.
func WithMaxPayload(bytes int) Option {
	return func(c *config) error {
		if bytes < 1 || bytes > maxMaxPayload {
			return fmt.Errorf("payload limit is %d bytes: give WithMaxPayload 1 to %d", bytes, maxMaxPayload)
		}
		c.maxPayload = bytes
		return nil
	}
}

// WithOnDuplicate sets what Append does with an event that is already in the table; the default is [FailOnDuplicate].
// Duplicates are found by the table's primary key, event_id and created_at. For IDs other than UUIDv7 they are found
// only in a table without partitions.
//
// On MySQL and MariaDB [SkipDuplicate] needs the privileges SELECT and UPDATE on the column event_id.
func WithOnDuplicate(d OnDuplicate) Option {
	return func(c *config) error {
		if d > SkipDuplicate {
			return fmt.Errorf("behaviour %d on duplicates is unknown: give WithOnDuplicate FailOnDuplicate or SkipDuplicate", d)
		}
		c.onDuplicate = d
		return nil
	}
}

// WithPayloadColumn sets the type of the payload column, if 'cdc-relay schema print --payload' created it with another
// type than bytea. Payloads that the type cannot hold are rejected.
func WithPayloadColumn(p PayloadColumn) Option {
	return func(c *config) error {
		if p > PayloadJSONB {
			return fmt.Errorf("payload column %d is unknown: give WithPayloadColumn PayloadBytea, PayloadText or PayloadJSONB", p)
		}
		c.payload = p
		return nil
	}
}

// WithClock replaces the clock that sets OccurredAt, for tests. The time in a new ID is not affected, see [WithIDs].
func WithClock(now func() time.Time) Option {
	return func(c *config) error {
		if now == nil {
			return errors.New("the clock is nil: give WithClock a function")
		}
		c.now = now
		return nil
	}
}

// WithAttempts sets how often [Run] runs its function while the errors are [Retryable]; the default is 3.
func WithAttempts(n int) Option {
	return func(c *config) error {
		if n < 1 {
			return fmt.Errorf("%d attempts: give WithAttempts at least 1", n)
		}
		c.attempts = n
		return nil
	}
}

// WithHookErrors sets what gets the errors and panics of functions after the transaction, see [Unit]; the default logs them
// with slog. They are not in the result of [Run], because a caller would repeat work that is committed.
func WithHookErrors(handle func(context.Context, error)) Option {
	return func(c *config) error {
		if handle == nil {
			return errors.New("the handler of hooks' errors is nil: give WithHookErrors a function")
		}
		c.hookErrors = handle
		return nil
	}
}
