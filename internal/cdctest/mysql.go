package cdctest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// MySQL is a MySQL or MariaDB database with the table outbox.
type MySQL struct {
	Server *testenv.MySQLServer
	// Proxy, if not nil, is between the relay and the server; writers and checkers do not use it.
	Proxy *testenv.ProxyServer
	// PayloadColumn is the payload column, for tests that rename it.
	PayloadColumn string

	onSQL

	name string
}

var _ Database = (*MySQL)(nil)

// OpenMySQL returns an existing database with the table outbox.
func OpenMySQL(server *testenv.MySQLServer, name string) *MySQL {
	m := &MySQL{Server: server, name: name, PayloadColumn: "payload"}
	m.onSQL = onSQL{
		open: func() (*sql.DB, error) {
			return m.Server.Open(name, func(config *mysql.Config) {
				config.InterpolateParams = true
				config.Timeout = 10 * time.Second
			})
		},
		events: func() string {
			return `SELECT event_id, COALESCE(topic, ''), aggregate_id, aggregate_type, event_type, content_type,
				occurred_at, headers, ` + outbox.QuoteMySQL(m.PayloadColumn) + ` FROM outbox`
		},
	}
	return m
}

// NewMySQL creates the database.
func NewMySQL(ctx context.Context, server *testenv.MySQLServer, name string) (*MySQL, error) {
	m := OpenMySQL(server, name)
	if err := server.CreateDatabase(ctx, name); err != nil {
		return nil, fmt.Errorf("create database %s: %w", name, err)
	}
	table := m.Table()
	steps := outbox.MySQLSetup(outbox.SetupOptions{
		Flavor: cdc.Flavor(server.Flavor), Read: []outbox.Name{table},
		Make: []outbox.TableOptions{{Name: table, From: time.Now().Add(-24 * time.Hour), Ahead: 2}},
	})
	err := m.setUp(ctx, "CREATE TABLE seqs (k VARBINARY(255) PRIMARY KEY, seq INT NOT NULL)", steps)
	return m, err
}

// Name returns the database's name.
func (m *MySQL) Name() string { return m.name }

// Table returns the name of the outbox table.
func (m *MySQL) Table() outbox.Name { return outbox.Name{Schema: m.name, Table: "outbox"} }

// ThroughProxy sets Proxy.
func (m *MySQL) ThroughProxy(tb testing.TB) *testenv.ProxyServer {
	tb.Helper()
	m.Proxy = testenv.Proxy(tb, m.Server.Addr())
	return m.Proxy
}

// RecordSource returns the default ce_source.
func (m *MySQL) RecordSource() string { return "/" + m.name + "/outbox" }

// Checkpoints returns the places outside of the server, which stores no position for the relay.
func (m *MySQL) Checkpoints() []Checkpoint { return []Checkpoint{InFile, InRedis} }

// Config returns the setting source.
func (m *MySQL) Config() map[string]any {
	dsn := m.Server.DSN(m.name, "")
	if m.Proxy != nil {
		dsn = strings.Replace(dsn, m.Server.Addr(), m.Proxy.Addr(), 1)
	}
	return map[string]any{"mysql": map[string]any{"dsn": dsn, "id": m.name}}
}

// Away implements [Database].
func (m *MySQL) Away(err error) bool {
	said, ok := errors.AsType[*mysql.MySQLError](err)
	if !ok {
		return true
	}
	switch said.Number {
	case 1040, // ER_CON_COUNT_ERROR
		1053, // ER_SERVER_SHUTDOWN
		1317, // ER_QUERY_INTERRUPTED
		1927, // ER_CONNECTION_KILLED, of MariaDB
		3168, // ER_SERVER_ISNT_AVAILABLE
		3169: // ER_SESSION_WAS_KILLED
		return true
	}
	return false
}

// Stop stops the server.
func (m *MySQL) Stop(ctx context.Context, how Stop) error {
	if how == Crash {
		return m.Server.Stop(ctx, testenv.MySQLCrash)
	}
	return m.Server.Stop(ctx, testenv.MySQLShutdown)
}

// Start starts the server.
func (m *MySQL) Start(ctx context.Context) error { return m.Server.Start(ctx) }

// CutLeader implements [Database].
func (m *MySQL) CutLeader(ctx context.Context) error {
	var holder *int64
	err := m.Query(ctx, []any{&holder}, "SELECT IS_USED_LOCK(?)", "cdc-relay."+m.Server.Flavor+"."+m.name)
	if err != nil || holder == nil {
		return err
	}
	err = m.Exec(ctx, "KILL ?", *holder)
	if said, ok := errors.AsType[*mysql.MySQLError](err); ok && said.Number == erNoSuchThread {
		return nil
	}
	return err
}

// erNoSuchThread is ER_NO_SUCH_THREAD: the session has ended already.
const erNoSuchThread = 1094

// LoseLog purges all binlogs but a new, empty one. The server does not purge what a replica still reads, so it kills their
// connections; replicas that still run connect again.
func (m *MySQL) LoseLog(ctx context.Context) error {
	if err := m.Server.Exec(ctx, "", "FLUSH BINARY LOGS"); err != nil {
		return err
	}
	dumps := "SELECT processlist_id AS reader FROM performance_schema.threads WHERE processlist_command LIKE 'Binlog Dump%'"
	if m.Server.Flavor == testenv.MariaDBFlavor {
		dumps = "SELECT id AS reader FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'" // MySQL's fails while writers insert bytes
	}
	return Await(ctx, "the binary logs to be purged", func(ctx context.Context) (bool, error) {
		readers, err := m.Server.Column(ctx, dumps, "reader")
		if err != nil {
			return false, err
		}
		for _, reader := range readers {
			err := m.Server.Exec(ctx, "", "KILL "+reader)
			if said, ok := errors.AsType[*mysql.MySQLError](err); ok && said.Number == erNoSuchThread {
				continue
			}
			if err != nil {
				return false, err
			}
		}
		logs, err := m.Server.Column(ctx, "SHOW BINARY LOGS", "Log_name")
		if err != nil || len(logs) < 2 {
			return err == nil, err
		}
		return false, m.Server.Exec(ctx, "", "PURGE BINARY LOGS TO '"+logs[len(logs)-1]+"'")
	})
}

// InsertMany implements [Database].
func (m *MySQL) InsertMany(ctx context.Context, prefix string, n, size int) error {
	return m.Exec(ctx, `INSERT INTO outbox (event_id, aggregate_id, aggregate_type, event_type, content_type, occurred_at, `+outbox.QuoteMySQL(m.PayloadColumn)+`)
		WITH RECURSIVE digits AS (SELECT 0 AS d UNION ALL SELECT d + 1 FROM digits WHERE d < 999)
		SELECT UNHEX(CONCAT(LEFT(SHA2(?, 256), 20), LPAD(HEX(i), 12, '0'))), CONCAT(?, i % 100), 'Order', 'OrderPlaced', 'text/plain',
			'2026-01-02 03:04:05.5', CONCAT(?, i % 100, ':', i DIV 100 + 1, ':', REPEAT('x', ?))
		FROM (SELECT a.d * 1000000 + b.d * 1000 + c.d AS i FROM digits a, digits b, digits c WHERE a.d < ? AND a.d * 1000000 + b.d * 1000 + c.d < ?) AS numbers
		ORDER BY i`, prefix, prefix, prefix, size, n/1_000_000+1, n)
}
