package writer_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "github.com/lib/pq"              // the driver "postgres"

	"github.com/cdc-relay/cdc-relay/writer"
	"github.com/cdc-relay/cdc-relay/writer/pgxwriter"
)

// way is one of the ways into the table: a driver in one of its modes.
type way struct {
	name   string
	driver string   // of database/sql, or "" for pgx by itself
	params []string // of the connection
}

func ways() []way {
	all := []way{
		{name: "sql/pq", driver: "postgres"},
		{name: "sql/pq/binary_parameters", driver: "postgres", params: []string{"binary_parameters", "yes"}},
	}
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		params := []string{"default_query_exec_mode", mode}
		all = append(all, way{"sql/pgx/" + mode, "pgx", params}, way{"pgx/" + mode, "", params})
	}
	return all
}

// session is a connection that appends, in one transaction after the other.
type session interface {
	begin(tb testing.TB) transaction
}

type transaction interface {
	Append(ctx context.Context, events ...*writer.Event) error
	Exec(ctx context.Context, query string) error
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
}

// open connects to the database as user ("" is the superuser) with a writer of these options.
func (w way) open(tb testing.TB, db *database, user string, opts ...writer.Option) session {
	tb.Helper()
	dsn := db.server.DSN(db.name, user, w.params...)
	if w.driver == "" {
		events, err := pgxwriter.New(opts...)
		if err != nil {
			tb.Fatal(err)
		}
		conn, err := pgx.Connect(tb.Context(), dsn)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = conn.Close(context.WithoutCancel(tb.Context())) })
		return pgxSession{conn, events}
	}
	events, err := writer.New(writer.Postgres, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	pool, err := sql.Open(w.driver, dsn)
	if err != nil {
		tb.Fatal(err)
	}
	pool.SetMaxOpenConns(1)
	tb.Cleanup(func() { _ = pool.Close() })
	return sqlSession{pool, events}
}

type sqlSession struct {
	pool   *sql.DB
	events *writer.Writer
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

type pgxSession struct {
	conn   *pgx.Conn
	events *pgxwriter.Writer
}

func (s pgxSession) begin(tb testing.TB) transaction {
	tb.Helper()
	tx, err := s.conn.Begin(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return pgxTx{tx, s.events}
}

type pgxTx struct {
	pgx.Tx

	events *pgxwriter.Writer
}

func (t pgxTx) Append(ctx context.Context, events ...*writer.Event) error {
	return t.events.Append(ctx, t.Tx, events...)
}

func (t pgxTx) Exec(ctx context.Context, query string) error {
	_, err := t.Tx.Exec(ctx, query)
	return err
}

// appendAll appends the events in a transaction of their own.
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
