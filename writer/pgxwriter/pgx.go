// Package pgxwriter lets package writer work in transactions of pgx, in every query exec mode, including those that poolers
// need (exec, simple_protocol):
//
//	err := writer.Run(ctx, pgxwriter.Pool(pool), events, func(ctx context.Context, tx pgx.Tx, u *writer.Unit) error {
//		...
//	})
//
// In a transaction of your own, [Tx] is what Append takes.
package pgxwriter

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/writer"
)

// Tx returns tx as [writer.Writer.Append] takes it. nil stays nil.
func Tx(tx pgx.Tx) writer.Tx {
	if tx == nil {
		return nil
	}
	return transaction{tx}
}

type transaction struct{ tx pgx.Tx }

func (t transaction) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	tag, err := t.tx.Exec(ctx, query, args...)
	return driver.RowsAffected(tag.RowsAffected()), closed(err)
}

func (t transaction) Commit() error   { return t.tx.Commit(context.Background()) }
func (t transaction) Rollback() error { return t.tx.Rollback(context.Background()) }

// DB is the [writer.DB] of pgx.
type DB struct {
	db interface {
		BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
	}

	// TxOptions are those of each transaction. Set them before the first use.
	TxOptions pgx.TxOptions
}

// Pool returns the DB for a *pgxpool.Pool, or for a *pgx.Conn, which is for one goroutine.
func Pool(db interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
},
) *DB {
	return &DB{db: db}
}

// Dialect is PostgreSQL's.
func (*DB) Dialect() writer.Dialect { return writer.Postgres }

// Begin starts a transaction with d.TxOptions.
func (d *DB) Begin(ctx context.Context) (pgx.Tx, error) { return d.db.BeginTx(ctx, d.TxOptions) }

// ReadCommitted returns the DB with transactions of this isolation level.
func (d *DB) ReadCommitted() writer.DB[pgx.Tx] {
	return &DB{db: d.db, TxOptions: pgx.TxOptions{IsoLevel: pgx.ReadCommitted}}
}

// Commit commits. If ctx ends during it, the connection is closed and the result unknown.
func (*DB) Commit(ctx context.Context, tx pgx.Tx) error { return closed(tx.Commit(ctx)) }

// Rollback rolls back.
func (*DB) Rollback(ctx context.Context, tx pgx.Tx) error { return closed(tx.Rollback(ctx)) }

// Exec runs a statement.
func (*DB) Exec(ctx context.Context, tx pgx.Tx, query string, args ...any) (int64, error) {
	tag, err := tx.Exec(ctx, query, args...)
	return tag.RowsAffected(), closed(err)
}

// Query runs a query.
func (*DB) Query(ctx context.Context, tx pgx.Tx, query string, args ...any) (writer.Rows, error) {
	r, err := tx.Query(ctx, query, args...)
	return rows{r}, closed(err)
}

// rows has the Close of database/sql.
type rows struct{ pgx.Rows }

func (r rows) Close() error {
	r.Rows.Close()
	return r.Err()
}

// closed gives the error of a finished transaction its name in database/sql, by which the writer and the inbox know it.
func closed(err error) error {
	if errors.Is(err, pgx.ErrTxClosed) {
		return fmt.Errorf("%w: %w", err, sql.ErrTxDone)
	}
	return err
}
