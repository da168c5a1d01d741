// Package wal tests the PostgreSQL source against a real server, with a fake queue.
package wal

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/internal/wal"
)

var server *testenv.PostgresServer

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, func(ctx context.Context, _ string) (err error) {
		server, err = testenv.StartPostgres(ctx, testenv.PostgresOptions{Settings: map[string]string{"max_prepared_transactions": "5"}})
		return err
	}, func() error { return server.Close() }, func() error { return goleak.Find() }))
}

// database is a database for one test, with an outbox table, publication and slot.
type database struct {
	t    *testing.T
	name string
	conn *pgx.Conn
	load cdc.Loader // nil: there is no checkpoint
	// needs are the columns that are needed; nil: all are.
	needs func(table, column string) bool
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	ctx := t.Context()
	name := strings.ToLower(strings.NewReplacer("/", "_", " ", "_").Replace(t.Name()))
	testenv.Must(t, server.CreateDatabase(ctx, name))
	d := &database{t: t, name: name}
	d.conn = d.connect("")
	t.Cleanup(func() {
		// The server has 20 slots. A slot that is still active is not dropped.
		_, _ = d.conn.Exec(context.WithoutCancel(ctx), "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1 AND NOT active", name)
	})
	table := outbox.Name{Schema: "public", Table: "outbox"}
	d.setup(outbox.SetupOptions{
		Make: []outbox.TableOptions{{Name: table, Payload: outbox.PayloadBytea, Partition: outbox.PartitionDaily, From: time.Now(), Ahead: 1}},
		Read: []outbox.Name{table}, Publication: name, Slot: name,
	})
	return d
}

// connect opens another connection, as a role or "", until the end of the test.
func (d *database) connect(role string) *pgx.Conn {
	d.t.Helper()
	conn, err := pgx.Connect(d.t.Context(), server.DSN(d.name, role))
	testenv.Must(d.t, err)
	d.t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(d.t.Context())) })
	return conn
}

// open opens the database as the relay does, as a role or "", until the end of the test.
func (d *database) open(role string) *postgres.Database {
	d.t.Helper()
	db, err := postgres.OpenDatabase(d.t.Context(), postgres.Options{DSN: func(context.Context) (string, error) { return server.DSN(d.name, role), nil }})
	testenv.Must(d.t, err)
	d.t.Cleanup(func() { db.Close(context.WithoutCancel(d.t.Context())) })
	return db
}

// setup does what the command of that name would do.
func (d *database) setup(o outbox.SetupOptions) {
	d.t.Helper()
	steps := outbox.PostgresSetup(o)
	for _, step := range steps {
		for _, st := range step.Statements {
			d.exec(st.SQL)
		}
	}
}

func (d *database) exec(sql string, args ...any) {
	d.t.Helper()
	if _, err := d.conn.Exec(d.t.Context(), sql, args...); err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
}

const insertRows = `INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, payload, occurred_at)
	SELECT gen_random_uuid(), 'Order', (i % 100)::text, 'OrderPlaced', convert_to(i::text, 'UTF8'), now() FROM generate_series($1::int, $2::int) i`

// insert inserts the events from..to in one transaction; their payload is their number.
func (d *database) insert(from, to int) {
	d.t.Helper()
	d.exec(insertRows, from, to)
}

func (d *database) source() *wal.Source { return d.sourceWith(wal.Options{}) }

func (d *database) sourceWith(o wal.Options) *wal.Source {
	if o.DSN == nil {
		o.DSN = func(context.Context) (string, error) { return server.DSN(d.name, ""), nil }
	}
	if o.Slot == "" {
		o.Slot = d.name
	}
	if o.Tables == nil {
		o.Tables = []string{"public.outbox"}
	}
	o.Publication, o.Needs = d.name, d.needs
	return wal.New(o, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
}

// queue keeps the payloads of all batches, and can confirm them at once.
type queue struct {
	tb       testing.TB
	mu       sync.Mutex
	payloads []string
	batches  int
	seqs     []uint64
	limit    int // refuses batches once it holds this many payloads; 0: no limit
	space    chan struct{}
	confirm  func(seq uint64)
	changed  chan struct{}
}

func newQueue(tb testing.TB) *queue {
	tb.Helper()
	return &queue{tb: tb, space: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
}

func (q *queue) Offer(b *cdc.Batch) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.limit > 0 && len(q.payloads) >= q.limit {
		return false
	}
	if n := len(q.seqs); n > 0 && q.seqs[n-1]+1 != b.Seq {
		cdctest.Violation(q.tb, cdctest.Order, "seq %d after %d", b.Seq, q.seqs[n-1])
	}
	q.seqs = append(q.seqs, b.Seq)
	q.batches++
	for row := range b.Rows() {
		col := b.Table.Index("payload")
		raw, _ := b.Value(row, col)
		data, _, err := b.Table.Columns[col].Form.Bytes(nil, raw)
		if err != nil {
			cdctest.Violation(q.tb, cdctest.Content, "payload of seq %d: %v", b.Seq, err)
		}
		q.payloads = append(q.payloads, string(data))
	}
	if q.confirm != nil {
		q.confirm(b.Seq)
	}
	b.Release()
	select {
	case q.changed <- struct{}{}:
	default:
	}
	return true
}

func (q *queue) Space() <-chan struct{} { return q.space }

func (q *queue) held() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]string(nil), q.payloads...)
}

func (q *queue) last() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.seqs) == 0 {
		return 0
	}
	return q.seqs[len(q.seqs)-1]
}

// patience is the time limit of each wait, long enough for a busy machine.
var patience = cdctest.Patience(2 * time.Minute)

// waitFor waits until ok returns true for the payloads.
func (q *queue) waitFor(t *testing.T, what string, ok func(payloads []string) bool) {
	t.Helper()
	deadline := time.After(patience)
	for {
		if ok(q.held()) {
			return
		}
		select {
		case <-q.changed:
		case <-deadline:
			t.Fatalf("waited %s for %s; have %d events", patience, what, len(q.held()))
		}
	}
}

func (q *queue) waitCount(t *testing.T, n int) {
	t.Helper()
	q.waitFor(t, fmt.Sprintf("%d events", n), func(p []string) bool { return len(p) >= n })
}

func none(context.Context, cdc.Source) (cdc.Checkpoint, bool, error) {
	return cdc.Checkpoint{}, false, nil
}

// acquire makes a source lead that has no checkpoint.
func acquire(t *testing.T, s *wal.Source) {
	t.Helper()
	if _, _, err := s.Acquire(t.Context(), none); err != nil {
		t.Fatal(err)
	}
}

// ends stops a source, which has to end without an error.
func ends(t *testing.T, stop func() error) {
	t.Helper()
	testenv.Must(t, stop())
}

// tailing runs a source until stop is called, which returns Run's error.
func tailing(t *testing.T, s *wal.Source, q cdc.Queue) (stop func() error) {
	t.Helper()
	acquire(t, s)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, q) }()
	var once sync.Once
	var err error
	stop = func() error {
		once.Do(func() { cancel(); err = <-done })
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

func numbers(from, to int) []string {
	var out []string
	for i := from; i <= to; i++ {
		out = append(out, strconv.Itoa(i))
	}
	return out
}

// holds verifies that q has the events from..to, in order, and no others. It must have as many.
func (q *queue) holds(t *testing.T, from, to int) {
	t.Helper()
	got, want := q.held(), numbers(from, to)
	if !slices.Equal(got, want) {
		cdctest.Violation(t, cdctest.Difference(got, want), "got %d events, want %d; got %.200s", len(got), len(want), fmt.Sprint(got))
		t.FailNow()
	}
}

// equal is for what a busy server may change, and for what is no event.
func equal(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("got %d events, want %d; got %.200v", len(got), len(want), got)
	}
}

// A prepared transaction is published when it is committed, in commit order, and not published if it is rolled back.
//
//covers:postgres 20 rows both
func TestPreparedTransactions(t *testing.T) {
	d := newDatabase(t)
	prepare := func(name string, n int) {
		d.exec("BEGIN")
		d.insert(n, n)
		d.exec("PREPARE TRANSACTION '" + name + "'")
	}
	q := newQueue(t)
	stop := tailing(t, d.source(), q)
	prepare("third", 3)
	prepare("taken back", 100)
	prepare("second", 2)
	d.insert(1, 1)
	q.waitCount(t, 1)
	d.exec("COMMIT PREPARED 'second'")
	d.exec("ROLLBACK PREPARED 'taken back'")
	d.exec("COMMIT PREPARED 'third'")
	d.insert(4, 4)
	q.waitCount(t, 4)
	_ = stop()
	q.holds(t, 1, 4)
}

// A reconnect in the same process repeats nothing, not even the part of a transaction that was passed on before the
// connection was lost.
//
//covers:postgres 18 rows both
func TestReconnectRepeatsNothing(t *testing.T) {
	d := newDatabase(t)
	s, q := d.source(), newQueue(t)
	q.limit = 3000
	stop := tailing(t, s, q)
	d.insert(1, 1)
	d.insert(2, 10000)
	q.waitCount(t, 3000)
	_ = stop()
	if n := len(q.held()); n >= 10000 {
		t.Fatalf("all %d events passed a queue with a limit", n)
	}
	q.limit = 0
	tailing(t, s, q)
	q.waitCount(t, 10000)
	q.holds(t, 1, 10000)
}

// A column of a type whose binary form is unknown switches the stream to text, also while it runs.
func TestTextMode(t *testing.T) {
	d := newDatabase(t)
	s, q := d.source(), newQueue(t)
	stop := tailing(t, s, q)
	d.insert(1, 10)
	q.waitCount(t, 10)
	d.exec("ALTER TABLE outbox ADD COLUMN price numeric DEFAULT 1.5")
	d.insert(11, 20)
	for len(q.held()) < 20 {
		if err := stop(); err != nil && !strings.Contains(err.Error(), "text mode") {
			t.Fatal(err)
		}
		stop = tailing(t, s, q)
		q.waitCount(t, 20)
	}
	q.holds(t, 1, 20)
}

// A type that was made while the relay reads, in the transaction of its first row, is read from the catalog once the transaction can be
// seen there; the stream goes on.
func TestNewType(t *testing.T) {
	for name, text := range map[string]bool{"binary": false, "text": true} {
		t.Run(name, func(t *testing.T) {
			d := synchronousDatabase(t)
			q := newQueue(t)
			stop := tailing(t, d.sourceWith(wal.Options{Text: text}), q)
			d.insert(1, 10)
			q.waitCount(t, 10)
			done := d.held("BEGIN", "CREATE DOMAIN body AS bytea", "ALTER TABLE outbox ALTER payload TYPE body", insertSQL("11", "20"), "COMMIT")
			d.hidden(q, 10, 10)
			d.setNames("")
			testenv.Must(t, <-done)
			q.waitCount(t, 20)
			d.insert(21, 30)
			q.waitCount(t, 30)
			q.holds(t, 1, 30)
			ends(t, stop)
		})
	}
}

// A domain that was dropped since is what it was when the rows were written, and what an ENUM was is text.
func TestDroppedType(t *testing.T) {
	for name, text := range map[string]bool{"binary": false, "text": true} {
		t.Run(name, func(t *testing.T) {
			d := newDatabase(t)
			for _, statement := range []string{
				"CREATE DOMAIN raw AS bytea", "CREATE DOMAIN body AS raw", "CREATE DOMAIN moment AS timestamptz", "CREATE TYPE mood AS ENUM ('sad', 'happy')",
				"ALTER TABLE outbox ALTER payload TYPE body, ALTER occurred_at TYPE moment, ADD mood mood DEFAULT 'happy'",
			} {
				d.exec(statement)
			}
			d.insert(1, 10)
			d.exec("ALTER TABLE outbox ALTER payload TYPE bytea, ALTER occurred_at TYPE timestamptz, DROP mood")
			d.exec("DROP TYPE body, raw, moment, mood")
			d.needs = func(_, column string) bool { return column != "mood" }
			d.insert(11, 20)
			q := &cellQueue{queue: newQueue(t)}
			stop := tailing(t, d.sourceWith(wal.Options{Text: text}), q)
			q.waitCount(t, 20)
			q.holds(t, 1, 20)
			ends(t, stop)
			bytes, moment := cdc.FormBytes, cdc.FormMicros2000
			if text {
				bytes, moment = cdc.FormHex, cdc.FormTimestampText
			}
			for _, row := range q.rows {
				if !strings.Contains(row, fmt.Sprintf("payload %d %d ", bytes, cdc.TypeBytes)) || !strings.Contains(row, fmt.Sprintf("occurred_at %d %d ", moment, cdc.TypeTime)) {
					t.Errorf("a row is %s", row)
				}
			}
			if row := q.rows[0]; text && !strings.Contains(row, `true "happy"`) {
				t.Errorf("a row with what was an ENUM is %s", row)
			}
		})
	}
}

func TestLargeRows(t *testing.T) {
	d := newDatabase(t)
	q := newQueue(t)
	tailing(t, d.source(), q)
	for _, size := range []int{1, 100_000, 3_000_000, 524_288, 7} {
		d.exec(`INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, payload, occurred_at)
			VALUES (gen_random_uuid(), 'a', 'b', 'c', convert_to(repeat('x', $1), 'UTF8'), now())`, size)
	}
	q.waitCount(t, 5)
	for i, want := range []int{1, 100_000, 3_000_000, 524_288, 7} {
		if got := len(q.held()[i]); got != want {
			cdctest.Violation(t, cdctest.Content, "payload %d has %d bytes, want %d", i, got, want)
		}
	}
}

// The slot of an idle outbox in a busy database advances, also when the database has been told to send no keepalives. It is not late.
func TestIdleOutboxAdvances(t *testing.T) {
	d := newDatabase(t)
	s, q := d.sourceWith(wal.Options{Options: postgres.Options{WaitUntilVisible: true}}), newQueue(t)
	q.confirm = s.Confirm
	tailing(t, s, q)
	d.exec("CREATE TABLE busy (x text)")
	d.advances()
	deadline := time.Now().Add(patience)
	for quiet := false; !quiet; {
		if time.Now().After(deadline) {
			t.Fatal("the server is never told to send no keepalives")
		}
		d.exec("INSERT INTO busy VALUES ('x')") // a commit, and a keepalive
		err := d.conn.QueryRow(t.Context(), `SELECT write_lsn > sent_lsn FROM pg_stat_replication JOIN pg_replication_slots ON pid = active_pid
			WHERE slot_name = $1`, d.name).Scan(&quiet)
		testenv.Must(t, err)
	}
	neighbour := &database{t: t, name: d.name + "_neighbour"}
	testenv.Must(t, server.CreateDatabase(t.Context(), neighbour.name))
	neighbour.conn = neighbour.connect("")
	neighbour.exec("CREATE TABLE busy (x text)")
	for began := time.Now(); time.Since(began) < 15*time.Second || s.Lag() > 0; { // longer than what does not count
		if time.Since(began) > patience {
			t.Fatalf("%s late", s.Lag())
		}
		neighbour.exec("INSERT INTO busy SELECT repeat('x', 1000) FROM generate_series(1, 20), pg_sleep(0.05)")
	}
	d.advances()
}

// awaitLag waits until a source is late, or is not any more.
func (d *database) awaitLag(s *wal.Source, late bool) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	testenv.Must(d.t, cdctest.Await(ctx, fmt.Sprintf("late: %t", late), func(context.Context) (bool, error) { return s.Lag() > 0 == late, nil }))
}

// advances waits until the slot of an idle outbox has come past what another table wrote.
func (d *database) advances() {
	d.t.Helper()
	d.exec("INSERT INTO busy SELECT repeat('x', 1000) FROM generate_series(1, 8000)")
	d.await("the slot", "EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1 AND pg_current_wal_flush_lsn() - confirmed_flush_lsn <= 1 << 20)", d.name)
}
