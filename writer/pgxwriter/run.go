package pgxwriter

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/writer"
)

// Beginner begins transactions: a *pgxpool.Pool, *pgxpool.Conn or *pgx.Conn.
type Beginner interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

// Flush appends the events of the unit, as [writer.Writer.Flush] does.
func (w *Writer) Flush(ctx context.Context, tx pgx.Tx, u *writer.Unit) error {
	return u.Flush(func(events ...*writer.Event) error { return w.Append(ctx, tx, events...) })
}

// Run runs fn in a transaction, appends the events of its unit as the last statements, and commits. It does what
// [writer.Writer.Run] does.
func (w *Writer) Run(
	ctx context.Context, db Beginner, options pgx.TxOptions, fn func(ctx context.Context, tx pgx.Tx, u *writer.Unit) error, o ...writer.UnitOption,
) error {
	return writer.RunAttempts(ctx, func(ctx context.Context) (writer.Attempt, error) {
		tx, err := db.BeginTx(ctx, options)
		if err != nil {
			return writer.Attempt{}, err
		}
		return writer.Attempt{
			Do: func(ctx context.Context, u *writer.Unit) error {
				if err := fn(ctx, tx, u); err != nil {
					return err
				}
				return w.Flush(ctx, tx, u)
			},
			Commit: tx.Commit, Rollback: tx.Rollback,
		}, nil
	}, o...)
}
