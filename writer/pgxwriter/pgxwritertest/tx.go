// Package pgxwritertest has transactions of pgx without a database, for tests of code that appends with pgxwriter. What it
// appended is checked with package writertest, which also reads tables through pgx.
package pgxwritertest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/writer"
	"github.com/cdc-relay/cdc-relay/writer/pgxwriter"
	"github.com/cdc-relay/cdc-relay/writer/writertest"
)

// Tx returns a transaction whose Exec does what the recorder's Answer says, by default change one row; QueryRow finds no row, Query and
// Begin fail. Its writer needs the recorder's Option. Other methods panic.
func Tx(r *writertest.Recorder) pgx.Tx { return &tx{recorded: r.Tx()} }

// DB returns the [writer.DB] of transactions like [Tx], for [writer.Run].
func DB(r *writertest.Recorder) *pgxwriter.DB { return pgxwriter.Pool(pool{r}) }

type pool struct{ r *writertest.Recorder }

func (p pool) BeginTx(context.Context, pgx.TxOptions) (pgx.Tx, error) { return Tx(p.r), nil }

type tx struct {
	pgx.Tx

	recorded writer.Tx
}

func (t *tx) Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error) {
	result, err := t.recorded.ExecContext(ctx, query, args...)
	if err != nil {
		return pgconn.CommandTag{}, closed(err)
	}
	changed, err := result.RowsAffected()
	return pgconn.NewCommandTag(fmt.Sprint("UPDATE ", changed)), err
}

var errRecorder = errors.New("a recorder runs no queries and has no savepoints: test this with a database, and writertest.Pgx in place of the recorder")

func (*tx) Query(context.Context, string, ...any) (pgx.Rows, error) { return nil, errRecorder }
func (*tx) QueryRow(context.Context, string, ...any) pgx.Row        { return noRow{} }
func (*tx) Begin(context.Context) (pgx.Tx, error)                   { return nil, errRecorder }

type noRow struct{}

func (noRow) Scan(...any) error { return pgx.ErrNoRows }

func (t *tx) Commit(context.Context) error   { return closed(t.recorded.Commit()) }
func (t *tx) Rollback(context.Context) error { return closed(t.recorded.Rollback()) }

// closed returns pgx's error for a transaction that has ended.
func closed(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return fmt.Errorf("%w: %w", pgx.ErrTxClosed, err)
	}
	return err
}
