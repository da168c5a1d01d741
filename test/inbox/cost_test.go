package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
	"github.com/cdc-relay/cdc-relay/writer/pgxwriter"
)

// counted counts the round trips of a connection: how often a read follows a write.
type counted struct {
	net.Conn

	wrote atomic.Bool
	trips *atomic.Int64
}

func (c *counted) Write(b []byte) (int, error) {
	c.wrote.Store(true)
	return c.Conn.Write(b)
}

func (c *counted) Read(b []byte) (int, error) {
	if c.wrote.Swap(false) {
		c.trips.Add(1)
	}
	return c.Conn.Read(b)
}

func dial(trips *atomic.Int64) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, addr)
		return &counted{Conn: c, trips: trips}, err
	}
}

// Handle costs one round trip more than the work in a transaction, and another one on MySQL and MariaDB, where it verifies that the
// transaction is still the one of the record; a repeat costs the transaction and the INSERT.
func TestHandleCostsOneRoundTrip(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		for name, open := range db.countedWays(t) {
			var trips atomic.Int64
			access := open(&trips)
			in := access.inbox(t, name)
			work := func(ctx context.Context, tx execer) error { return tx(ctx, "UPDATE stock SET n = n + 1") }
			cost := func(fn func() error) int64 {
				before := trips.Load()
				testenv.Must(t, fn())
				return trips.Load() - before
			}
			alone := func() error { return access.transact(t.Context(), work) }
			handle := func(id string, wantRepeat bool) func() error {
				return func() error {
					repeat, err := in.handle(t.Context(), message(id), work)
					if repeat != wantRepeat {
						t.Errorf("%s: repeat %v", id, repeat)
					}
					return err
				}
			}
			testenv.Must(t, errors.Join(alone(), handle("warm up", false)())) // connects, and prepares what drivers keep
			got := [3]int64{cost(alone), cost(handle("1", false)), cost(handle("1", true))}
			t.Logf("%s: round trips of the work alone, of Handle, of a repeat: %d", name, got)
			want := got[0] + 1
			if db.my != nil {
				want++
			}
			if got[1] != want || got[2] != got[0] {
				t.Errorf("%s: round trips %d", name, got)
			}
		}
	})
}

func (db *database) countedWays(t *testing.T) map[string]func(trips *atomic.Int64) access {
	t.Helper()
	if db.my != nil {
		return map[string]func(*atomic.Int64) access{"mysql": func(trips *atomic.Int64) access {
			config, err := mysql.ParseDSN(db.my.DSN(db.name, ""))
			testenv.Must(t, err)
			config.DialFunc = dial(trips)
			connector, err := mysql.NewConnector(config)
			testenv.Must(t, err)
			return db.countedSQL(t, sql.OpenDB(connector))
		}}
	}
	return map[string]func(*atomic.Int64) access{
		"sql/pgx": func(trips *atomic.Int64) access {
			config, err := pgx.ParseConfig(db.pg.DSN(db.name, ""))
			testenv.Must(t, err)
			config.DialFunc = dial(trips)
			return db.countedSQL(t, stdlib.OpenDB(*config))
		},
		"pgx": func(trips *atomic.Int64) access {
			config, err := pgxpool.ParseConfig(db.pg.DSN(db.name, ""))
			testenv.Must(t, err)
			config.ConnConfig.DialFunc = dial(trips)
			config.MaxConns = 1
			pool, err := pgxpool.NewWithConfig(t.Context(), config)
			testenv.Must(t, err)
			t.Cleanup(pool.Close)
			return typed[pgx.Tx]{pgxwriter.Pool(pool)}
		},
	}
}

func (db *database) countedSQL(t *testing.T, pool *sql.DB) access {
	t.Helper()
	t.Cleanup(func() { _ = pool.Close() })
	pool.SetMaxOpenConns(1)
	return typed[*sql.Tx]{writer.SQL(pool, db.dialect)}
}
