package inbox

import (
	"context"
	"database/sql"

	"github.com/cdc-relay/cdc-relay/writer"
)

// DB runs statements in transactions of type Tx. [SQL] is the one for database/sql, pgxinbox.Pool the one for pgx. Its
// errors are those of the driver, unwrapped or wrapped. One for PostgreSQL may have a method ReadCommitted() DB[Tx], as these do.
type DB[Tx any] interface {
	Dialect() writer.Dialect
	Begin(ctx context.Context) (Tx, error)
	Commit(ctx context.Context, tx Tx) error
	Rollback(ctx context.Context, tx Tx) error

	// Exec returns the number of rows that the statement changed.
	Exec(ctx context.Context, tx Tx, query string, args ...any) (int64, error)

	// Query's rows must be closed before the next statement of the transaction.
	Query(ctx context.Context, tx Tx, query string, args ...any) (Rows, error)
}

// Rows are the rows of a query, as those of database/sql.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close() error
}

// SQLDB is the [DB] of database/sql.
type SQLDB struct {
	db      *sql.DB
	dialect writer.Dialect

	// TxOptions are those of each transaction; nil is the database's default. Set them before the first use.
	TxOptions *sql.TxOptions
}

// SQL returns the DB for a pool of database/sql, with any driver that package writer supports.
func SQL(db *sql.DB, d writer.Dialect) *SQLDB { return &SQLDB{db: db, dialect: d} }

// Dialect returns the dialect given to SQL.
func (s *SQLDB) Dialect() writer.Dialect { return s.dialect }

// Begin starts a transaction with s.TxOptions.
func (s *SQLDB) Begin(ctx context.Context) (*sql.Tx, error) { return s.db.BeginTx(ctx, s.TxOptions) }

// ReadCommitted returns the DB with transactions of this isolation level, which parking uses on PostgreSQL.
func (s *SQLDB) ReadCommitted() DB[*sql.Tx] {
	return &SQLDB{db: s.db, dialect: s.dialect, TxOptions: &sql.TxOptions{Isolation: sql.LevelReadCommitted}}
}

// Commit commits. database/sql commits without a context, unless that of Begin has ended.
func (*SQLDB) Commit(_ context.Context, tx *sql.Tx) error { return tx.Commit() }

// Rollback rolls back. database/sql does so without a context.
func (*SQLDB) Rollback(_ context.Context, tx *sql.Tx) error { return tx.Rollback() }

// Exec runs a statement.
func (*SQLDB) Exec(ctx context.Context, tx *sql.Tx, query string, args ...any) (int64, error) {
	r, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// Query runs a query.
func (*SQLDB) Query(ctx context.Context, tx *sql.Tx, query string, args ...any) (Rows, error) {
	return tx.QueryContext(ctx, query, args...) //nolint:rowserrcheck // the caller's
}
