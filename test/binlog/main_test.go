// Package binlog tests the MySQL and MariaDB source against real servers, with a fake queue.
package binlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
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
	return binlog.New(d.options(o), slog.New(slog.DiscardHandler), prometheus.NewRegistry())
}

// queue keeps the rows of all batches as text.
type queue struct {
	mu      sync.Mutex
	rows    []map[string]string // by column; NULL is missing
	seqs    []uint64
	columns []cdc.Column     // of the last row's table
	each    func(*cdc.Batch) // nil: not called
	tb      testing.TB       // set by start, like confirm
	confirm func(seq uint64)
	limit   int // refuses batches once it holds this many rows; 0: no limit
	space   chan struct{}
	changed chan struct{}
}

func newQueue() *queue {
	return &queue{space: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
}

func (q *queue) Offer(b *cdc.Batch) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.limit > 0 && len(q.rows) >= q.limit {
		return false
	}
	if n := len(q.seqs); n > 0 && q.seqs[n-1]+1 != b.Seq {
		cdctest.Violation(q.tb, cdctest.Order, "seq %d after %d", b.Seq, q.seqs[n-1])
	}
	q.seqs = append(q.seqs, b.Seq)
	for row := range b.Rows() {
		q.columns = b.Table.Columns
		values := map[string]string{}
		for i, c := range b.Table.Columns {
			if raw, ok := b.Value(row, i); ok {
				text, err := c.Form.AppendText(nil, raw)
				if err != nil {
					text = []byte(err.Error())
				}
				values[c.Name] = string(text)
			}
		}
		q.rows = append(q.rows, values)
	}
	if q.each != nil {
		q.each(b)
	}
	q.confirm(b.Seq)
	b.Release()
	select {
	case q.changed <- struct{}{}:
	default:
	}
	return true
}

func (q *queue) Space() <-chan struct{} { return q.space }

// patience is the time limit of each wait, long enough for a busy machine.
var patience = cdctest.Patience(2 * time.Minute)

// await returns the rows once there are n.
func (r *running) await(n int) []map[string]string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	for {
		r.queue.mu.Lock()
		rows := r.queue.rows
		r.queue.mu.Unlock()
		if len(rows) >= n {
			return rows
		}
		select {
		case <-r.queue.changed:
		case err := <-r.done:
			r.t.Fatalf("the source ended with %d rows, want %d: %v", len(rows), n, err)
		case <-ctx.Done():
			r.t.Fatalf("%d rows after %s, want %d", len(rows), patience, n)
		}
	}
}

// expect waits for as many rows, which must be those that are wanted, in order.
func (r *running) expect(want ...int) {
	r.t.Helper()
	same(r.t, numbers(r.await(len(want))), want)
}

// expectUpTo is expect for the numbers first..last.
func (r *running) expectUpTo(first, last int) {
	r.t.Helper()
	var want []int
	for n := first; n <= last; n++ {
		want = append(want, n)
	}
	r.expect(want...)
}

// same compares rows. got must have as many as want.
func same(t *testing.T, got, want []int) {
	t.Helper()
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	if i < max(len(got), len(want)) {
		cdctest.Violation(t, cdctest.Difference(got, want), "%d rows, want %d; from row %d on %.200s, want %.200s",
			len(got), len(want), i, fmt.Sprint(got[i:]), fmt.Sprint(want[i:]))
	}
}

func (q *queue) last() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.seqs) == 0 {
		return 0
	}
	return q.seqs[len(q.seqs)-1]
}

// running is a source that runs until stop or the end of the test.
type running struct {
	t      *testing.T
	source *binlog.Source
	queue  *queue
	cancel context.CancelFunc
	done   chan error
}

func none(context.Context, cdc.Source) (cdc.Checkpoint, bool, error) {
	return cdc.Checkpoint{}, false, nil
}

func nothing(context.Context) (cdc.Checkpoint, bool, error) { return cdc.Checkpoint{}, false, nil }

func start(t *testing.T, s *binlog.Source, q *queue, load cdc.Resumer) *running {
	t.Helper()
	if _, _, err := s.Acquire(t.Context(), load); err != nil {
		t.Fatal(err)
	}
	q.tb, q.confirm = t, s.Confirm
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r := &running{t: t, source: s, queue: q, cancel: cancel, done: make(chan error, 1)}
	go func() { r.done <- s.Run(ctx, q) }()
	t.Cleanup(func() { cancel() })
	return r
}

func (r *running) stop() error {
	r.cancel()
	return <-r.done
}

// mustStop stops the source, which has to end without an error.
func (r *running) mustStop() {
	r.t.Helper()
	testenv.Must(r.t, r.stop())
}

// ended waits until Run returns and returns its error.
func (r *running) ended() error {
	r.t.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(patience):
		r.t.Fatal("the source is still running")
		return nil
	}
}

// endedBehind waits until Run returns behind the first n rows, and returns its error. Further rows end the test at once: what stands
// between was passed over.
func (r *running) endedBehind(n int) error {
	r.t.Helper()
	limit := time.After(patience)
	for {
		r.queue.mu.Lock()
		rows := len(r.queue.rows)
		r.queue.mu.Unlock()
		if rows > n {
			cdctest.Violation(r.t, cdctest.Lost, "%d rows were handed on, want %d", rows, n)
			r.t.FailNow()
		}
		select {
		case err := <-r.done:
			return err
		case <-r.queue.changed:
		case <-limit:
			r.t.Fatal("the source is still running")
		}
	}
}
