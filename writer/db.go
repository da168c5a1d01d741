package writer

import (
	"context"
	"database/sql"
	"database/sql/driver"
)

// DB begins transactions of a library, of the type T that its statements use. [SQL] returns one for database/sql and [ORM] for
// libraries that build on it; pgxwriter.Pool is for pgx, gormwriter.DB for GORM. Its errors are the driver's, or wrap them. One
// for PostgreSQL may have a method ReadCommitted() DB[T], as these do.
type DB[T any] interface {
	Dialect() Dialect
	Begin(ctx context.Context) (T, error)
	Commit(ctx context.Context, tx T) error
	Rollback(ctx context.Context, tx T) error

	// Exec returns the number of rows that the statement changed.
	Exec(ctx context.Context, tx T, query string, args ...any) (int64, error)

	// Query's rows must be closed before the next statement of the transaction.
	Query(ctx context.Context, tx T, query string, args ...any) (Rows, error)
}

// Rows are the rows of a query, as those of database/sql.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close() error
}

// SQLDB is the [DB] of database/sql, and of libraries that build on it.
type SQLDB[T any] struct {
	dialect Dialect
	begin   func(context.Context, *sql.TxOptions) (T, error)
	sqlTx   func(T) sqlTx

	// TxOptions are those of each transaction; nil is the database's default. Set them before the first use.
	TxOptions *sql.TxOptions
}

// sqlTx is a transaction of database/sql.
type sqlTx interface {
	Tx
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// SQL returns the DB for a *sql.DB or *sql.Conn, with any driver that this package supports.
func SQL(db interface {
	BeginTx(ctx context.Context, o *sql.TxOptions) (*sql.Tx, error)
}, d Dialect,
) *SQLDB[*sql.Tx] {
	return ORM(d, db.BeginTx, func(tx *sql.Tx) *sql.Tx { return tx })
}

// ORM returns the DB for a library on database/sql with transactions of its own type. begin begins one, and tx returns it as a
// transaction of database/sql:
//
//	writer.ORM(writer.Postgres, db.BeginTxx, func(tx *sqlx.Tx) *sqlx.Tx { return tx })    // sqlx
//	writer.ORM(writer.Postgres, db.BeginTx, func(tx bun.Tx) *sql.Tx { return tx.Tx })     // bun
//	writer.ORM(writer.Postgres, client.BeginTx, func(tx *ent.Tx) *ent.Tx { return tx })   // ent, with the feature sql/execquery
func ORM[T any, S sqlTx](d Dialect, begin func(context.Context, *sql.TxOptions) (T, error), tx func(T) S) *SQLDB[T] {
	return &SQLDB[T]{dialect: d, begin: begin, sqlTx: func(t T) sqlTx { return tx(t) }}
}

// Dialect returns the dialect that SQL or ORM got.
func (s *SQLDB[T]) Dialect() Dialect { return s.dialect }

// ReadCommitted returns the DB with transactions of this isolation level.
func (s *SQLDB[T]) ReadCommitted() DB[T] {
	c := *s
	c.TxOptions = &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	return &c
}

// Begin starts a transaction with s.TxOptions.
func (s *SQLDB[T]) Begin(ctx context.Context) (T, error) { return s.begin(ctx, s.TxOptions) }

// Commit commits. database/sql commits without a context, unless that of Begin has ended.
func (s *SQLDB[T]) Commit(_ context.Context, tx T) error { return s.sqlTx(tx).Commit() }

// Rollback rolls back. database/sql does so without a context.
func (s *SQLDB[T]) Rollback(_ context.Context, tx T) error { return s.sqlTx(tx).Rollback() }

// Exec runs a statement.
func (s *SQLDB[T]) Exec(ctx context.Context, tx T, query string, args ...any) (int64, error) {
	r, err := s.sqlTx(tx).ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// Query runs a query.
func (s *SQLDB[T]) Query(ctx context.Context, tx T, query string, args ...any) (Rows, error) {
	return s.sqlTx(tx).QueryContext(ctx, query, args...) //nolint:rowserrcheck // the caller's
}

// TxOf returns a transaction of db as [Writer.Append] takes it.
func TxOf[T any](db DB[T], tx T) Tx { return bound[T]{db, tx} }

type bound[T any] struct {
	db DB[T]
	tx T
}

func (b bound[T]) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	n, err := b.db.Exec(ctx, b.tx, query, args...)
	return driver.RowsAffected(n), err
}

func (b bound[T]) Commit() error   { return b.db.Commit(context.Background(), b.tx) }
func (b bound[T]) Rollback() error { return b.db.Rollback(context.Background(), b.tx) }
