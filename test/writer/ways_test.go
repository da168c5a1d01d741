package writer_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
	"github.com/cdc-relay/cdc-relay/writer/writertest"
)

// way is a driver in one of its modes.
type way struct {
	name string
	// connect connects with a DSN and creates a writer with options.
	connect func(tb testing.TB, dsn string, opts ...writer.Option) session
	dsn     func(database, user string) string
}

// open connects to a database as user; "" is the superuser.
func (w way) open(tb testing.TB, database, user string, opts ...writer.Option) session {
	tb.Helper()
	return w.connect(tb, w.dsn(database, user), opts...)
}

// openThrough connects through a proxy.
func (w way) openThrough(tb testing.TB, proxy *testenv.ProxyServer, database string, opts ...writer.Option) session {
	tb.Helper()
	return w.connect(tb, strings.Replace(w.dsn(database, ""), proxy.Target(), proxy.Addr(), 1), opts...)
}

// session is a connection with one transaction at a time.
type session interface {
	begin(tb testing.TB) transaction
	run(ctx context.Context, fn func(context.Context, transaction, *writer.Unit) error, o ...writer.Option) error
}

type transaction interface {
	Append(ctx context.Context, events ...*writer.Event) error
	Flush(ctx context.Context, u *writer.Unit) error
	// look returns what reads the events of the transaction.
	look() (*writer.Writer, writertest.Reader)
	Exec(ctx context.Context, query string) error
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
}

type sqlSession struct {
	pool    *sql.DB
	dialect writer.Dialect
	opts    []writer.Option
	events  *writer.Writer
}

func openSQL(tb testing.TB, d writer.Dialect, driver, dsn string, opts []writer.Option) session {
	tb.Helper()
	events, err := writer.New(d, opts...)
	testenv.Must(tb, err)
	pool, err := sql.Open(driver, dsn)
	testenv.Must(tb, err)
	pool.SetMaxOpenConns(1)
	tb.Cleanup(func() { _ = pool.Close() })
	return sqlSession{pool, d, opts, events}
}

func (s sqlSession) begin(tb testing.TB) transaction {
	tb.Helper()
	tx, err := s.pool.BeginTx(tb.Context(), nil)
	testenv.Must(tb, err)
	tb.Cleanup(func() { _ = tx.Rollback() })
	return sqlTx{tx, s.events}
}

func (s sqlSession) run(ctx context.Context, fn func(context.Context, transaction, *writer.Unit) error, o ...writer.Option) error {
	events, err := writer.New(s.dialect, append(o, s.opts...)...)
	if err != nil {
		return err
	}
	return writer.Run(ctx, writer.SQL(s.pool, s.dialect), events, func(ctx context.Context, tx *sql.Tx, u *writer.Unit) error {
		return fn(ctx, sqlTx{tx, events}, u)
	})
}

type sqlTx struct {
	tx     *sql.Tx
	events *writer.Writer
}

func (t sqlTx) Append(ctx context.Context, events ...*writer.Event) error {
	return t.events.Append(ctx, t.tx, events...)
}

func (t sqlTx) Flush(ctx context.Context, u *writer.Unit) error { return t.events.Flush(ctx, t.tx, u) }

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
	testenv.Must(tb, tx.Append(tb.Context(), events...))
	testenv.Must(tb, tx.Commit(tb.Context()))
}
