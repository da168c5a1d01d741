// Package pgxwriter appends events to a transactional outbox table inside a pgx transaction.
//
// It does the same as package writer, with pgx instead of database/sql, in every query exec mode of pgx, including those
// that poolers need (exec, simple_protocol). The documentation of writer on IDs, times, ownership, order and errors also
// applies here.
package pgxwriter

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/writer"
)

const (
	// maxRows limits the arrays of a statement; writer.Chunks limits their bytes.
	maxRows = 4096

	// Up to fewRows rows are cheaper with a parameter for each value, more as arrays. pgx's array types are cheaper than
	// text by a sixth.
	fewRows = 8
)

var errNilTx = fmt.Errorf("%w: the transaction is nil: pass the open transaction that writes the business data", writer.ErrNoTransaction)

// Writer appends events to one outbox table. It holds only settings and is safe for concurrent use.
type Writer struct {
	rows *writer.Writer
}

// New returns a writer with the given options. It does not connect to the database.
func New(opts ...writer.Option) (*Writer, error) {
	rows, err := writer.New(writer.Postgres, opts...)
	if err != nil {
		return nil, err
	}
	return &Writer{rows: rows}, nil
}

// Table returns the table's name, quoted for SQL.
func (w *Writer) Table() string { return w.rows.Table() }

// Dialect returns [writer.Postgres].
func (w *Writer) Dialect() writer.Dialect { return w.rows.Dialect() }

// Append inserts events in the transaction, in order. It neither commits nor rolls back.
//
// All events are checked before the first statement is sent: after a [writer.ErrInvalidEvent] the transaction is
// unchanged. After any other error the transaction has failed: roll it back. Without events Append does nothing.
//
// One event is one plain INSERT. Several events are one INSERT of many rows, or several if they exceed 4096 rows or
// 4 MiB. Append uses at most nine different statements, so pgx can cache prepared statements. Append blocks until the
// statements are done or ctx ends.
func (w *Writer) Append(ctx context.Context, tx pgx.Tx, events ...*writer.Event) error {
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
func (w *Writer) appendOne(ctx context.Context, tx pgx.Tx, e *writer.Event) error {
	var space [1]writer.Row
	rows, err := w.rows.Prepare(ctx, space[:0], e)
	if err != nil {
		return err
	}
	if len(rows) != 1 { // interceptors left it out or added others
		return w.insertMany(ctx, tx, slices.Clone(rows))
	}
	query, args := w.rows.InsertOne(rows[0])
	if _, err := tx.Exec(ctx, query, args...); err != nil {
		return w.insertError(1, err)
	}
	w.rows.Written(ctx, rows)
	return nil
}

func (w *Writer) appendMany(ctx context.Context, tx pgx.Tx, events []*writer.Event) error {
	rows, err := w.rows.Prepare(ctx, nil, events...)
	if err != nil {
		return err
	}
	return w.insertMany(ctx, tx, rows)
}

func (w *Writer) insertMany(ctx context.Context, tx pgx.Tx, rows []writer.Row) error {
	for chunk := range writer.Chunks(rows, maxRows) {
		query, args := w.statement(chunk)
		if _, err := tx.Exec(ctx, query, args...); err != nil {
			return w.insertError(len(chunk), err)
		}
	}
	if len(rows) > 0 {
		w.rows.Written(ctx, rows)
	}
	return nil
}

func (w *Writer) statement(rows []writer.Row) (query string, args []any) {
	if len(rows) <= fewRows {
		return w.rows.InsertMany(rows)
	}
	return w.rows.InsertArrays(), arrays(rows)
}

func (w *Writer) insertError(rows int, err error) error {
	if errors.Is(err, pgx.ErrTxClosed) {
		err = fmt.Errorf("%w: %w", err, sql.ErrTxDone) // for which InsertError has a fix
	}
	return w.rows.InsertError(rows, err)
}
