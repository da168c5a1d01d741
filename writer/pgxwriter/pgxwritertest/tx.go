// Package pgxwritertest has transactions of pgx without a database, for tests of code that appends with pgxwriter. What it
// appended is checked with package writertest, which also reads tables through pgx.
package pgxwritertest

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/writer"
	"github.com/cdc-relay/cdc-relay/writer/pgxwriter"
	"github.com/cdc-relay/cdc-relay/writer/writertest"
)

// Tx returns a transaction that accepts every statement of Exec, like the recorder's own. Its writer needs the recorder's
// Option. Methods other than Exec, Commit and Rollback panic.
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
	_, err := t.recorded.ExecContext(ctx, query, args...)
	return pgconn.CommandTag{}, closed(err)
}

func (t *tx) Commit(context.Context) error   { return closed(t.recorded.Commit()) }
func (t *tx) Rollback(context.Context) error { return closed(t.recorded.Rollback()) }

// closed returns pgx's error for a transaction that has ended.
func closed(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: %w", pgx.ErrTxClosed, err)
}
