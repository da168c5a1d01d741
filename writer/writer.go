package writer

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Dialect is the SQL dialect of a database. The zero value is invalid.
type Dialect uint8

const (
	// Postgres is PostgreSQL 14 and newer.
	Postgres Dialect = 1
	// MySQL is MySQL 8.4 and newer.
	MySQL Dialect = 2
	// MariaDB is MariaDB 10.11 and newer.
	MariaDB Dialect = 3
)

// Tx is an open transaction of database/sql. Pass a *sql.Tx or a type that embeds one, such as sqlx's Tx; a *sql.DB or
// a *sql.Conn does not compile, because it has no Commit. Append calls only ExecContext.
//
// bun's Tx formats queries itself and drops the arguments: pass the *sql.Tx that it embeds.
//
// It is tested with pgx/v5/stdlib, lib/pq and go-sql-driver/mysql. With the last, parseTime, loc and the session's time zone have
// no effect: times are stored in UTC. The connection's character set must be utf8mb4, the default. With another one, such as utf8,
// the server rejects some text or, without strict sql_mode, stores it damaged. With interpolateParams=true an event costs one
// round trip, otherwise three, because the driver prepares each statement again.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	Commit() error
	Rollback() error
}

// Writer appends events to one outbox table. It holds only settings and is safe for concurrent use.
type Writer struct {
	dialect     Dialect
	table       string // quoted for SQL
	maxPayload  int
	payload     PayloadColumn
	onDuplicate OnDuplicate
	maxText     int // characters of a text column; 0: no limit
	sql         inserts
	hooks
}

// New returns a writer for the dialect, with the given options. It does not connect to the database.
func New(d Dialect, opts ...Option) (*Writer, error) {
	if d < Postgres || d > MariaDB {
		return nil, fmt.Errorf("make writer: dialect %d is unknown: use writer.Postgres, writer.MySQL or writer.MariaDB", d)
	}
	c := config{table: defaultTable, maxPayload: defaultMaxPayload, hooks: hooks{now: time.Now, newID: uuid.NewV7, attempts: defaultAttempts, hookErrors: logHookError}}
	for _, o := range opts {
		if err := o(&c); err != nil {
			return nil, fmt.Errorf("make writer: %w", err)
		}
	}
	w := &Writer{dialect: d, maxPayload: c.maxPayload, payload: c.payload, onDuplicate: c.onDuplicate, hooks: c.hooks}
	if err := w.speak(c.table); err != nil {
		return nil, fmt.Errorf("make writer: %w", err)
	}
	return w, nil
}

// speak builds the dialect's SQL for the table.
func (w *Writer) speak(table string) (err error) {
	quote := "`"
	if w.dialect == Postgres {
		quote = `"`
	}
	if w.table, err = quoteTable(table, quote); err != nil {
		return fmt.Errorf("%w: correct WithTable", err)
	}
	if w.dialect == Postgres {
		w.sql = newPostgres(w)
		return nil
	}
	w.sql, w.maxText = newMySQL(w), maxMySQLText
	return nil
}

// Table returns the table's name, quoted for SQL.
func (w *Writer) Table() string { return w.table }

// Dialect returns the dialect that New got.
func (w *Writer) Dialect() Dialect { return w.dialect }

// Append inserts events in the transaction, in order. It neither commits nor rolls back.
//
// All events are checked before the first statement is sent: after an [ErrInvalidEvent] the transaction is unchanged.
// After any other error the transaction has failed: roll it back. Without events Append does nothing.
//
// In a transaction of your own return the error of every statement, or use [Run]. After a deadlock MySQL and MariaDB have rolled everything
// back, and commit later statements at once: if its error is ignored, Append stores the events without the work that they are about.
//
// One event is one plain INSERT. Several events are one INSERT of many rows, or several if they exceed 4096 rows or
// 4 MiB. On PostgreSQL Append uses at most nine different statements, so drivers can cache prepared statements. Append
// blocks until the statements are done or ctx ends.
//
// Events are inserted in the order of the arguments, and in the order of the calls within a transaction. The relay publishes
// events with the same key in that order. Append changes only the ID and OccurredAt of events, see [Event], also with
// interceptors, and does not keep events, payloads or headers. Do not pass the same Event to two concurrent calls.
func (w *Writer) Append(ctx context.Context, tx Tx, events ...*Event) error {
	switch {
	case len(events) == 0:
		return nil
	case tx == nil:
		return fmt.Errorf("append events: %w", errNilTx)
	case len(events) == 1:
		return w.appendOne(ctx, tx, events[0])
	default:
		return w.appendMany(ctx, tx, events)
	}
}

// appendOne keeps the row on the stack.
func (w *Writer) appendOne(ctx context.Context, tx Tx, e *Event) error {
	var one [1]*Event
	var space [1]row
	one[0] = e
	rows, events, err := w.prepare(ctx, space[:0], one[:])
	if err != nil {
		return err
	}
	if len(rows) != 1 { // interceptors left it out or added others
		return w.insertMany(ctx, tx, slices.Clone(rows), events)
	}
	query, args := w.sql.one(rows[0])
	if _, err := tx.ExecContext(ctx, query, args...); err != nil {
		return w.insertError(1, explainBun(tx, err))
	}
	w.observe(ctx, events)
	return nil
}

func (w *Writer) appendMany(ctx context.Context, tx Tx, events []*Event) error {
	rows, events, err := w.prepare(ctx, nil, events)
	if err != nil {
		return err
	}
	return w.insertMany(ctx, tx, rows, events)
}

func (w *Writer) insertMany(ctx context.Context, tx Tx, rows []row, events []*Event) error {
	for chunk := range chunks(rows) {
		query, args := w.sql.many(chunk)
		if _, err := tx.ExecContext(ctx, query, args...); err != nil {
			return w.insertError(len(chunk), explainBun(tx, err))
		}
	}
	if len(rows) > 0 {
		w.observe(ctx, events)
	}
	return nil
}

// explainBun adds the fix to an error of bun's Tx on PostgreSQL: it formats a question mark and leaves $1 as it is, without
// its argument. The server's or the driver's words for that do not name bun.
func explainBun(tx Tx, err error) error {
	t := reflect.TypeOf(tx)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.PkgPath() != "github.com/uptrace/bun" {
		return err
	}
	return fmt.Errorf("%w: bun's Tx does not pass arguments on: append with tx.Tx, the *sql.Tx in it", err)
}
