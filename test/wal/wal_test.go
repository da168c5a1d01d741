// Package wal tests the PostgreSQL source against a real server, with a fake queue.
package wal

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
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
	"github.com/cdc-relay/cdc-relay/test/conformance"
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

// patience is the time limit of each wait, long enough for a busy machine.
var patience = cdctest.Patience(2 * time.Minute)

func none(context.Context, cdc.Source) (cdc.Checkpoint, bool, error) {
	return cdc.Checkpoint{}, false, nil
}

// acquire makes a source lead that has no checkpoint.
func acquire(t *testing.T, s *wal.Source) {
	t.Helper()
	_, _, err := s.Acquire(t.Context(), none)
	testenv.Must(t, err)
}

// newQueue is for the events of insert. It leaves the slot where it is, so that the server sends everything again.
func newQueue(t *testing.T) *conformance.Queue {
	t.Helper()
	q := conformance.NewQueue(t, "payload")
	q.Confirm = func(uint64) {}
	return q
}

// start runs a source that has no checkpoint until the end of the test.
func start(t *testing.T, s *wal.Source) *conformance.Running {
	t.Helper()
	return conformance.Start(t, s, newQueue(t), none)
}

// startConfirming is start with a source that moves its slot.
func startConfirming(t *testing.T, s *wal.Source) *conformance.Running {
	t.Helper()
	return conformance.Start(t, s, conformance.NewQueue(t, "payload"), none)
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
	r := start(t, d.source())
	prepare("third", 3)
	prepare("taken back", 100)
	prepare("second", 2)
	d.insert(1, 1)
	r.Await(1)
	d.exec("COMMIT PREPARED 'second'")
	d.exec("ROLLBACK PREPARED 'taken back'")
	d.exec("COMMIT PREPARED 'third'")
	d.insert(4, 4)
	r.Await(4)
	r.MustStop()
	r.ExpectUpTo(1, 4)
}

// A reconnect in the same process repeats nothing, not even the part of a transaction that was passed on before the
// connection was lost.
//
//covers:postgres 18 rows both
func TestReconnectRepeatsNothing(t *testing.T) {
	d := newDatabase(t)
	q := newQueue(t)
	q.Limit = 3000
	r := conformance.Start(t, d.source(), q, none)
	d.insert(1, 1)
	d.insert(2, 10000)
	r.Await(3000)
	r.MustStop()
	if n := len(r.Rows()); n >= 10000 {
		t.Fatalf("all %d events passed a queue with a limit", n)
	}
	r.Limit = 0
	r.Again(none).ExpectUpTo(1, 10000)
}

// A column of a type whose binary form is unknown switches the stream to text, also while it runs.
func TestTextMode(t *testing.T) {
	d := newDatabase(t)
	r := start(t, d.source())
	d.insert(1, 10)
	r.Await(10)
	d.exec("ALTER TABLE outbox ADD COLUMN price numeric DEFAULT 1.5")
	d.insert(11, 20)
	if err := r.Ended(); err == nil || !strings.Contains(err.Error(), "text mode") {
		t.Fatalf("ended with %v", err)
	}
	r.Again(none).ExpectUpTo(1, 20)
}

// A type that was made while the relay reads, in the transaction of its first row, is read from the catalog once the transaction can be
// seen there; the stream goes on.
func TestNewType(t *testing.T) {
	for name, text := range map[string]bool{"binary": false, "text": true} {
		t.Run(name, func(t *testing.T) {
			d := synchronousDatabase(t)
			r := start(t, d.sourceWith(wal.Options{Text: text}))
			d.insert(1, 10)
			r.Await(10)
			done := d.held("BEGIN", "CREATE DOMAIN body AS bytea", "ALTER TABLE outbox ALTER payload TYPE body", insertSQL("11", "20"), "COMMIT")
			d.hidden(r, 10, 10)
			d.setNames("")
			testenv.Must(t, <-done)
			r.Await(20)
			d.insert(21, 30)
			r.ExpectUpTo(1, 30)
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
			q := newCellQueue(t)
			r := conformance.Start(t, d.sourceWith(wal.Options{Text: text}), q.Queue, none)
			r.ExpectUpTo(1, 20)
			r.MustStop()
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
	r := start(t, d.source())
	for _, size := range []int{1, 100_000, 3_000_000, 524_288, 7} {
		d.exec(`INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, payload, occurred_at)
			VALUES (gen_random_uuid(), 'a', 'b', 'c', convert_to(repeat('x', $1), 'UTF8'), now())`, size)
	}
	rows := r.Await(5)
	for i, want := range []int{1, 100_000, 3_000_000, 524_288, 7} {
		if got := len(rows[i]["payload"]); got != want {
			cdctest.Violation(t, cdctest.Content, "payload %d has %d bytes, want %d", i, got, want)
		}
	}
}

// The slot of an idle outbox in a busy database advances, also when the database has been told to send no keepalives. It is not late.
func TestIdleOutboxAdvances(t *testing.T) {
	d := newDatabase(t)
	s := d.sourceWith(wal.Options{Options: postgres.Options{WaitUntilVisible: true}})
	startConfirming(t, s)
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
		neighbour.exec("INSERT INTO busy SELECT repeat('x', 1000) FROM pg_sleep(0.05)") // too little to come to where keepalives are wanted again
	}
	d.advances()
}

// awaitLag waits until a source is late, or is not any more.
func (d *database) awaitLag(s *wal.Source, late bool) {
	d.t.Helper()
	cdctest.Eventually(d.t, patience, fmt.Sprintf("late: %t", late), func() bool { return s.Lag() > 0 == late })
}

// advances waits until the slot of an idle outbox has come past what another table wrote.
func (d *database) advances() {
	d.t.Helper()
	d.exec("INSERT INTO busy SELECT repeat('x', 1000) FROM generate_series(1, 8000)")
	d.await("the slot", "EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1 AND pg_current_wal_flush_lsn() - confirmed_flush_lsn <= 1 << 20)", d.name)
}
