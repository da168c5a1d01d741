// Package pgxinbox lets package inbox work in transactions of pgx:
//
//	in, err := inbox.New(pgxinbox.Pool(pool), "revenue")
package pgxinbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/writer"
)

// Beginner begins transactions: a *pgxpool.Pool or a *pgx.Conn, which is for one goroutine.
type Beginner interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

// DB is an [inbox.DB] of pgx.
type DB struct {
	db Beginner

	// TxOptions are those of each transaction. Set them before the first use.
	TxOptions pgx.TxOptions
}

// Pool returns the DB for a pool.
func Pool(db Beginner) *DB { return &DB{db: db} }

// Dialect is PostgreSQL's.
func (*DB) Dialect() writer.Dialect { return writer.Postgres }

// Begin starts a transaction with d.TxOptions.
func (d *DB) Begin(ctx context.Context) (pgx.Tx, error) { return d.db.BeginTx(ctx, d.TxOptions) }

// ReadCommitted returns the DB with transactions of this isolation level, which parking uses.
func (d *DB) ReadCommitted() inbox.DB[pgx.Tx] {
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
func (*DB) Query(ctx context.Context, tx pgx.Tx, query string, args ...any) (inbox.Rows, error) {
	r, err := tx.Query(ctx, query, args...)
	return rows{r}, closed(err)
}

// rows has the Close of database/sql.
type rows struct{ pgx.Rows }

func (r rows) Close() error {
	r.Rows.Close()
	return r.Err()
}

// closed gives the error of a finished transaction its name in database/sql, for which package inbox has a fix.
func closed(err error) error {
	if errors.Is(err, pgx.ErrTxClosed) {
		return fmt.Errorf("%w: %w", err, sql.ErrTxDone)
	}
	return err
}
