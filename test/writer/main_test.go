// Package writer_test tests the writer on real servers with every supported driver.
package writer_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
)

// The servers of all tests.
var (
	pg      postgres
	my      mysql
	maria   mysql
	maria11 mysql
	engines []engine
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, startServers, stopServers)) }

func startServers(ctx context.Context, _ string) error {
	var starts errgroup.Group
	starts.Go(func() (err error) {
		pg.PostgresServer, err = testenv.StartPostgres(ctx, testenv.PostgresOptions{})
		return err
	})
	for server, options := range map[*mysql]testenv.MySQLOptions{
		&my: {}, &maria: {Flavor: testenv.MariaDBFlavor}, &maria11: {Flavor: testenv.MariaDBFlavor, Release: testenv.MariaDB114},
	} {
		starts.Go(func() (err error) {
			server.MySQLServer, err = testenv.StartMySQL(ctx, options)
			return err
		})
	}
	err := starts.Wait()
	engines = []engine{pg, my, maria, maria11}
	return err
}

func stopServers() error {
	return errors.Join(pg.Close(), my.Close(), maria.Close(), maria11.Close())
}

// engine is a kind of database server.
type engine interface {
	fmt.Stringer

	CreateDatabase(ctx context.Context, name string) error
	Addr() string
	dialect() writer.Dialect
	// look opens the test's connections to a database.
	look(database string) (*sql.DB, error)
	// script returns the script for a table that keeps the order of insertion.
	script(o outbox.TableOptions) []outbox.Statement
	// speech has the tests' SQL.
	speech() speech
	ways() []way
	// partition returns, as an SQL table, the partition of outbox for a day, or for the zero Time the one for other days.
	partition(at time.Time) string
}

// speech is SQL in a database's dialect.
type speech struct {
	clear       string // empties the table whose name follows
	rows        string // reads the columns of stored, in the order of insertion; payload and table are filled in
	payload     string // the payload as hex, for rows
	textPayload string // the payload as text, for rows
	hang        []string
	hanging     string // the newest connection after the given one that hangs in the trigger; NULL if there is none
	conflicts   map[string]conflict
	deadlock    []string // every other purchase with a total of 13 is the victim of one
}

// conflict is how a transaction fails that changes a row after another one has.
type conflict struct {
	before []string // what the transaction does first
	commit bool     // the other one is committed, and not only open
}

// onEach runs a test on all databases in parallel.
func onEach(t *testing.T, test func(t *testing.T, e engine)) {
	t.Helper()
	for _, e := range engines {
		t.Run(e.String(), func(t *testing.T) {
			t.Parallel()
			test(t, e)
		})
	}
}

// onEachWay runs a test on all databases with every driver. The table is empty.
func onEachWay(t *testing.T, test func(t *testing.T, db *database, w way)) {
	t.Helper()
	onEach(t, func(t *testing.T, e engine) {
		db := newDatabase(t, e, plain("outbox"))
		for _, w := range e.ways() {
			t.Run(w.name, func(t *testing.T) {
				db.clear(t, "outbox")
				test(t, db, w)
			})
		}
	})
}

var databases atomic.Int64

// database is a database with an outbox table, for one test.
type database struct {
	engine

	name string
	conn *sql.DB // the test's connections
}

// newDatabase creates a database with tables from the relay's scripts.
func newDatabase(tb testing.TB, e engine, tables ...outbox.TableOptions) *database {
	tb.Helper()
	name := fmt.Sprintf("writer%d", databases.Add(1))
	testenv.Must(tb, e.CreateDatabase(tb.Context(), name))
	conn, err := e.look(name)
	testenv.Must(tb, err)
	conn.SetMaxOpenConns(1)
	tb.Cleanup(func() { _ = conn.Close() })
	db := &database{engine: e, name: name, conn: conn}
	db.addTables(tb, tables...)
	return db
}

func (db *database) addTables(tb testing.TB, tables ...outbox.TableOptions) {
	tb.Helper()
	for _, t := range tables {
		for _, s := range db.script(t) {
			db.exec(tb, s.SQL)
		}
	}
}

func (db *database) exec(tb testing.TB, statements ...string) {
	tb.Helper()
	for _, s := range statements {
		if _, err := db.conn.ExecContext(tb.Context(), s); err != nil {
			tb.Fatalf("%v in\n%s", err, s)
		}
	}
}

// clear empties tables.
func (db *database) clear(tb testing.TB, tables ...string) {
	tb.Helper()
	for _, t := range tables {
		db.exec(tb, db.speech().clear+t)
	}
}

// plain is a table without partitions.
func plain(name string) outbox.TableOptions {
	o := outbox.TableOptions{Name: outbox.Name{Table: name}, Partition: outbox.PartitionNone}
	if schema, table, ok := strings.Cut(name, "."); ok {
		o.Name = outbox.Name{Schema: schema, Table: table}
	}
	return o
}

// daily is a table with partitions for yesterday, today and tomorrow.
func daily(name string) outbox.TableOptions {
	o := plain(name)
	o.Partition, o.From, o.Ahead = outbox.PartitionDaily, time.Now().Add(-24*time.Hour), 2
	return o
}

func count(tb testing.TB, db *database, table string) (n int) {
	tb.Helper()
	testenv.Must(tb, db.conn.QueryRowContext(tb.Context(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}
