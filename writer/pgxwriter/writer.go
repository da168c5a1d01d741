// Package pgxwriter appends events to a transactional outbox table inside a transaction of pgx.
//
// It does what package writer does, with pgx's own means, and in each of pgx's query exec modes: those that
// a pooler in between asks for (exec, simple_protocol) too. What writer says about ids, times, ownership,
// order and errors holds here.
package pgxwriter

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/writer"
)

const (
	// maxRows bounds the arrays of a statement; writer.Chunks bounds their bytes.
	maxRows = 4096

	// fewRows are cheaper with a parameter for each value. More are cheaper as arrays, by a sixth as arrays
	// of pgx's own.
	fewRows = 8
)

var errNilTx = errors.New("the transaction is nil: pass the open transaction that writes the business data")

// Writer appends events to one outbox table. It holds settings only and is safe for concurrent use.
type Writer struct {
	rows *writer.Writer
}

// New returns a writer with the options' settings. It does not touch the database.
func New(opts ...writer.Option) (*Writer, error) {
	rows, err := writer.New(writer.Postgres, opts...)
	if err != nil {
		return nil, err
	}
	return &Writer{rows: rows}, nil
}

// Append inserts the events in the transaction, in their order. It neither commits nor rolls back.
//
// All events are checked before the first goes to the database: on a [writer.ErrInvalidEvent] nothing was
// sent. After any other error the database has failed the transaction: roll it back. No events are no work.
//
// One event is one plain INSERT. More are one INSERT of many rows; beyond 4096 rows or 4 MiB there are as
// many as it takes. Their texts are nine in all, so that prepared statements are found again. Append blocks
// as long as the statements take and ends with ctx.
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

// appendOne keeps its row on the stack.
func (w *Writer) appendOne(ctx context.Context, tx pgx.Tx, e *writer.Event) error {
	var space [1]writer.Row
	rows, err := w.rows.Prepare(ctx, space[:0], e)
	if err != nil {
		return err
	}
	query, args := w.rows.InsertOne(rows[0])
	if _, err := tx.Exec(ctx, query, args...); err != nil {
		return w.insertError(1, err)
	}
	return nil
}

func (w *Writer) appendMany(ctx context.Context, tx pgx.Tx, events []*writer.Event) error {
	rows, err := w.rows.Prepare(ctx, nil, events...)
	if err != nil {
		return err
	}
	for chunk := range writer.Chunks(rows, maxRows) {
		query, args := w.statement(chunk)
		if _, err := tx.Exec(ctx, query, args...); err != nil {
			return w.insertError(len(chunk), err)
		}
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
		err = fmt.Errorf("%w: %w", err, sql.ErrTxDone) // which InsertError knows
	}
	return w.rows.InsertError(rows, err)
}
