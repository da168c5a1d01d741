// Package binlog tests the MySQL and MariaDB source against real servers, with a fake queue.
package binlog

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/test/conformance"
)

// kinds are the servers, by the name of the subtest.
func kinds() map[string]testenv.MySQLOptions {
	return map[string]testenv.MySQLOptions{
		"mysql":      {Flavor: testenv.MySQLFlavor, Settings: map[string]string{"performance_schema": "ON"}},
		"mariadb":    {Flavor: testenv.MariaDBFlavor},
		"mariadb114": {Flavor: testenv.MariaDBFlavor, Release: testenv.MariaDB114},
		"mariadb118": {Flavor: testenv.MariaDBFlavor, Release: testenv.MariaDB118},
	}
}

// servers are by kind.
var servers = map[string]*testenv.MySQLServer{}

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, startServers, stopServers, func() error { return goleak.Find() }))
}

func startServers(ctx context.Context, _ string) (err error) {
	for kind, options := range kinds() {
		if servers[kind], err = testenv.StartMySQL(ctx, options); err != nil {
			return err
		}
	}
	return nil
}

func stopServers() (err error) {
	for _, server := range servers {
		err = errors.Join(err, server.Close())
	}
	return err
}

// onEach runs a test on MySQL, and on the oldest and the newest MariaDB.
func onEach(t *testing.T, test func(d *database)) {
	t.Helper()
	on(t, []string{"mariadb", "mariadb118", "mysql"}, test)
}

// onEvery is onEach on the MariaDB between these, too, for what is read of the binlog.
func onEvery(t *testing.T, test func(d *database)) {
	t.Helper()
	on(t, slices.Sorted(maps.Keys(servers)), test)
}

// onOlder is onEach without the newest MariaDB, for tests of retention: they take long, and read no binlog.
func onOlder(t *testing.T, test func(d *database)) {
	t.Helper()
	on(t, []string{"mariadb", "mysql"}, test)
}

// on runs a test on all of them at the same time: it has each server to itself.
func on(t *testing.T, kinds []string, test func(d *database)) {
	t.Helper()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(newDatabase(t, kind))
		})
	}
}

// database is a database for one test.
type database struct {
	t      *testing.T
	server *testenv.MySQLServer
	flavor string
	name   string
	dsn    string
	db     *sql.DB
}

func newDatabase(t *testing.T, kind string) *database {
	t.Helper()
	return newDatabaseOn(t, servers[kind])
}

func newDatabaseOn(t *testing.T, server *testenv.MySQLServer) *database {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "_", " ", "_").Replace(t.Name()))
	d := &database{t: t, server: server, flavor: server.Flavor, name: name}
	testenv.Must(t, d.server.CreateDatabase(t.Context(), name))
	d.dsn = d.server.DSN(name, "")
	d.db = d.open(d.dsn)
	t.Cleanup(func() { _ = d.db.Close() })
	return d
}

func (d *database) open(dsn string) *sql.DB {
	d.t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	testenv.Must(d.t, err)
	cfg.MultiStatements = true
	connector, err := mysql.NewConnector(cfg)
	testenv.Must(d.t, err)
	return sql.OpenDB(connector)
}

func (d *database) exec(query string, args ...any) {
	d.t.Helper()
	if _, err := d.db.ExecContext(d.t.Context(), query, args...); err != nil {
		d.t.Fatalf("%.200s: %v", query, err)
	}
}

// session runs statements on one connection.
func (d *database) session(statements ...string) {
	d.t.Helper()
	conn, err := d.db.Conn(d.t.Context())
	testenv.Must(d.t, err)
	defer conn.Close()
	for _, s := range statements {
		if _, err := conn.ExecContext(d.t.Context(), s); err != nil {
			d.t.Fatalf("%.200s: %v", s, err)
		}
	}
}

// options returns o for this database, by default with its table outbox. A test may run several sources at once.
func (d *database) options(o binlog.Options) binlog.Options {
	o.NoLock = true
	o.DSN = func(context.Context) (string, error) { return d.dsn, nil }
	if o.Tables == nil {
		o.Tables = []string{d.name + ".outbox"}
	}
	return o
}

func (d *database) source(o binlog.Options) *binlog.Source {
	return newSource(d.options(o))
}

func newSource(o binlog.Options) *binlog.Source {
	return binlog.New(o, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
}

// patience is the time limit of each wait, long enough for a busy machine.
var patience = cdctest.Patience(2 * time.Minute)

func none(context.Context, cdc.Source) (cdc.Checkpoint, bool, error) {
	return cdc.Checkpoint{}, false, nil
}

func nothing(context.Context) (cdc.Checkpoint, bool, error) { return cdc.Checkpoint{}, false, nil }

// newQueue is for tables with a number in each row.
func newQueue(t *testing.T) *conformance.Queue {
	t.Helper()
	return conformance.NewQueue(t, "n")
}

// start runs a source until the end of the test.
func start(t *testing.T, s *binlog.Source, load cdc.Resumer) *conformance.Running {
	t.Helper()
	return conformance.Start(t, s, newQueue(t), load)
}
