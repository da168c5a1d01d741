// Package writer_test holds the writer to the table on real servers, through every driver it is made for.
package writer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

var server *testenv.PostgresServer

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	server, err = testenv.StartPostgres(ctx, testenv.PostgresOptions{})
	if err != nil {
		return 1, fmt.Errorf("start PostgreSQL: %w", err)
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	return m.Run(), nil
}

var databases atomic.Int64

// database is a database with an outbox table, for one test.
type database struct {
	server *testenv.PostgresServer
	name   string
	conn   *pgx.Conn // the test's own look at it
}

// newDatabase makes a database with the tables that the relay's own scripts make.
func newDatabase(tb testing.TB, s *testenv.PostgresServer, tables ...outbox.TableOptions) *database {
	tb.Helper()
	name := fmt.Sprintf("writer%d", databases.Add(1))
	if err := s.CreateDatabase(tb.Context(), name); err != nil {
		tb.Fatal(err)
	}
	conn, err := pgx.Connect(tb.Context(), s.DSN(name, ""))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.WithoutCancel(tb.Context())) })
	db := &database{server: s, name: name, conn: conn}
	db.addTables(tb, tables...)
	return db
}

func (db *database) addTables(tb testing.TB, tables ...outbox.TableOptions) {
	tb.Helper()
	for _, t := range tables {
		script, err := outbox.PostgresTable(t)
		if err != nil {
			tb.Fatal(err)
		}
		if t.Name.Schema != "public" {
			db.exec(tb, "CREATE SCHEMA IF NOT EXISTS "+outbox.Quote(t.Name.Schema))
		}
		for _, statement := range script.Up {
			db.exec(tb, statement.SQL)
		}
	}
}

func (db *database) exec(tb testing.TB, sql string, args ...any) {
	tb.Helper()
	if _, err := db.conn.Exec(tb.Context(), sql, args...); err != nil {
		tb.Fatal(err)
	}
}

// plain is a table without partitions, where the order of insertion shows.
func plain(name string) outbox.TableOptions {
	schema, table, _ := strings.Cut(name, ".")
	return outbox.TableOptions{Name: outbox.Name{Schema: schema, Table: table}, Partition: outbox.PartitionNone}
}

// daily is a table with partitions for yesterday, today and tomorrow.
func daily(name string) outbox.TableOptions {
	o := plain(name)
	o.Partition, o.From, o.Ahead = outbox.PartitionDaily, time.Now().Add(-24*time.Hour), 2
	return o
}

func count(tb testing.TB, db *database, table string) (n int) {
	tb.Helper()
	if err := db.conn.QueryRow(tb.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}
