package writer_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/cdc-relay/cdc-relay/writer"
)

// way is a driver in one of its modes.
type way struct {
	name string
	// open connects to a database as user ("" is the superuser) and creates a writer with options.
	open func(tb testing.TB, database, user string, opts ...writer.Option) session
}

// session is a connection with one transaction at a time.
type session interface {
	begin(tb testing.TB) transaction
}

type transaction interface {
	Append(ctx context.Context, events ...*writer.Event) error
	Exec(ctx context.Context, query string) error
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
}

type sqlSession struct {
	pool   *sql.DB
	events *writer.Writer
}

func openSQL(tb testing.TB, d writer.Dialect, driver, dsn string, opts []writer.Option) session {
	tb.Helper()
	events, err := writer.New(d, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	pool, err := sql.Open(driver, dsn)
	if err != nil {
		tb.Fatal(err)
	}
	pool.SetMaxOpenConns(1)
	tb.Cleanup(func() { _ = pool.Close() })
	return sqlSession{pool, events}
}

func (s sqlSession) begin(tb testing.TB) transaction {
	tb.Helper()
	tx, err := s.pool.BeginTx(tb.Context(), nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = tx.Rollback() })
	return sqlTx{tx, s.events}
}

type sqlTx struct {
	tx     *sql.Tx
	events *writer.Writer
}

func (t sqlTx) Append(ctx context.Context, events ...*writer.Event) error {
	return t.events.Append(ctx, t.tx, events...)
}

func (t sqlTx) Exec(ctx context.Context, query string) error {
	_, err := t.tx.ExecContext(ctx, query)
	return err
}

func (t sqlTx) Commit(context.Context) error   { return t.tx.Commit() }
func (t sqlTx) Rollback(context.Context) error { return t.tx.Rollback() }

// appendAll appends events in one transaction.
func appendAll(tb testing.TB, s session, events ...*writer.Event) {
	tb.Helper()
	tx := s.begin(tb)
	if err := tx.Append(tb.Context(), events...); err != nil {
		tb.Fatal(err)
	}
	if err := tx.Commit(tb.Context()); err != nil {
		tb.Fatal(err)
	}
}
