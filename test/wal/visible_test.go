package wal

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/internal/wal"
	"github.com/cdc-relay/cdc-relay/test/conformance"
)

// synchronousDatabase is on a server of its own, whose commits wait for a standby that does not exist if their session asks for it.
func synchronousDatabase(t *testing.T) *database {
	t.Helper()
	shared := server
	t.Cleanup(func() { server = shared })
	server = testenv.Postgres(t, testenv.PostgresOptions{Settings: map[string]string{
		"synchronous_standby_names": "nobody", "synchronous_commit": "local", "max_prepared_transactions": "5",
	}})
	return newDatabase(t)
}

// setNames sets synchronous_standby_names and waits until the server has read it.
func (d *database) setNames(names string) {
	d.t.Helper()
	d.exec("ALTER SYSTEM SET synchronous_standby_names = '" + names + "'")
	d.exec("SELECT pg_reload_conf()")
	d.await("the setting", "SELECT current_setting('synchronous_standby_names') = $1", names)
}

// await asks the server until it answers true.
func (d *database) await(what, question string, args ...any) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	err := cdctest.Await(ctx, what, func(ctx context.Context) (yes bool, err error) {
		err = d.conn.QueryRow(ctx, "SELECT ("+question+")", args...).Scan(&yes)
		return yes, err
	})
	testenv.Must(d.t, err)
}

// asking is the relay's connection that asks for snapshots.
const asking = "FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'SELECT pg_current_snapshot()::text, pg_is_in_recovery()%'"

// hidden waits until the relay has asked n times more, and verifies that r has no more than so many events meanwhile. The relay asks
// only about what it has received.
func (d *database) hidden(r *conformance.Running, visible, n int) {
	d.t.Helper()
	var last, at time.Time
	for deadline, asked := time.Now().Add(patience), 0; asked <= n; {
		if got := len(r.Rows()); got > visible {
			cdctest.Violation(d.t, cdctest.Phantom, "%d events were handed on before their rows are visible", got-visible)
			d.t.FailNow()
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("the relay asked %d times within %s", asked, patience)
		}
		testenv.Must(d.t, d.conn.QueryRow(d.t.Context(), "SELECT coalesce(max(query_start), 'epoch'), pg_sleep(0.005) "+asking).Scan(&at, nil))
		if at.After(last) {
			last = at
			asked++
		}
	}
}

// held runs statements in a session whose commits wait for a standby, and returns once the last one waits. It ends when the setting
// is emptied.
func (d *database) held(statements ...string) (done <-chan error) {
	d.t.Helper()
	conn := d.connect("")
	for _, sql := range append([]string{"SET synchronous_commit = on"}, statements[:len(statements)-1]...) {
		if _, err := conn.Exec(d.t.Context(), sql); err != nil {
			d.t.Fatalf("%s: %v", sql, err)
		}
	}
	ended := make(chan error, 1)
	go func() {
		_, err := conn.Exec(d.t.Context(), statements[len(statements)-1])
		ended <- err
	}()
	d.await("the commit to wait for a standby", "SELECT count(*) = 1 FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'SyncRep'", conn.PgConn().PID())
	return ended
}

func insertSQL(from, to string) string {
	return strings.NewReplacer("$1", from, "$2", to).Replace(insertRows)
}

// A transaction is in the WAL before a statement sees it. It is handed on only afterwards, and what was committed behind it later.
//
//covers:postgres 36 rows both
func TestRowsWaitUntilTheyAreVisible(t *testing.T) {
	d := synchronousDatabase(t)
	for name, c := range map[string][]string{
		"one statement":   {insertSQL("2", "2")},
		"transaction":     {"BEGIN", insertSQL("2", "2"), "COMMIT"},
		"subtransactions": {"BEGIN", "SAVEPOINT a", insertSQL("100", "100"), "ROLLBACK TO a", "SAVEPOINT b", insertSQL("2", "2"), "RELEASE b", "COMMIT"},
		"several batches": {insertSQL("2", "2000")},
		"prepared":        {"BEGIN", insertSQL("2", "2"), "SET LOCAL synchronous_commit = local", "PREPARE TRANSACTION 'p'", "COMMIT PREPARED 'p'"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &database{t: t, name: d.name, conn: d.conn}
			d.setNames("nobody")
			r := startConfirming(t, d.sourceWith(wal.Options{Options: postgres.Options{WaitUntilVisible: true}}))
			d.insert(1, 1)
			r.Await(1)
			done := d.held(c...)
			last := 3
			if name == "several batches" {
				last = 2001
			}
			d.insert(last, last) // visible at once
			d.hidden(r, 1, 10)
			d.setNames("")
			testenv.Must(t, <-done)
			r.Await(last)
			r.MustStop()
			r.ExpectUpTo(1, last)
			d.awaitFree()
		})
	}
}

// A stop does not wait for a commit, and hands nothing on. The rows come with the next run. What waits meanwhile makes the relay late.
//
//covers:postgres 36 rows both
func TestStopWhileACommitWaits(t *testing.T) {
	d := synchronousDatabase(t)
	s := d.sourceWith(wal.Options{Options: postgres.Options{WaitUntilVisible: true}})
	r := start(t, s)
	done := d.held(insertSQL("1", "1"))
	d.hidden(r, 0, 3)
	d.insert(2, 100)
	d.awaitLag(s, true)
	r.MustStop()
	if got := r.Rows(); len(got) != 0 {
		cdctest.Violation(t, cdctest.Phantom, "%d events were handed on before their rows are visible", len(got))
	}
	d.setNames("")
	testenv.Must(t, <-done)
	r.Again(none).ExpectUpTo(1, 100)
	d.awaitLag(s, false)
}

// retrying is a source that is acquired and run again and again, as the relay does.
type retrying struct {
	*wal.Source
	begin  func() // before each attempt
	failed chan error
}

func (s *retrying) Run(ctx context.Context, q cdc.Queue) error {
	defer s.Release(context.WithoutCancel(ctx))
	for ctx.Err() == nil {
		s.begin()
		_, _, err := s.Acquire(ctx, none)
		if err == nil {
			err = s.Source.Run(ctx, q)
		}
		if err != nil {
			select {
			case s.failed <- err:
			default:
			}
		}
	}
	return nil
}

// retry runs a source again and again until the test ends.
func (d *database) retry(s *wal.Source, begin func()) (r *conformance.Running, failed <-chan error) {
	again := &retrying{s, begin, make(chan error, 1000)}
	return conformance.Run(d.t, again, newQueue(d.t)), again.failed
}

// The connection that asks is lost again and again: nothing is handed on unseen, and everything once.
//
//covers:postgres 36 rows both
func TestVisibilityIsAskedAgain(t *testing.T) {
	d := synchronousDatabase(t)
	r, _ := d.retry(d.sourceWith(wal.Options{Options: postgres.Options{WaitUntilVisible: true}}), func() {})
	d.insert(1, 1)
	r.Await(1)
	done := d.held(insertSQL("2", "2"))
	for range 5 {
		d.hidden(r, 1, 2)
		d.exec("SELECT pg_terminate_backend(pid) " + asking)
	}
	d.hidden(r, 1, 2)
	d.setNames("")
	testenv.Must(t, <-done)
	r.Await(2)
	d.insert(3, 3)
	r.ExpectUpTo(1, 3)
}

// The address leads the connection that asks to another server, whose answer says nothing: the attempt ends and hands nothing on.
//
//covers:postgres 36 rows both
func TestVisibilityOfAnotherServer(t *testing.T) {
	d := newDatabase(t)
	other := testenv.Postgres(t, testenv.PostgresOptions{})
	testenv.Must(t, other.CreateDatabase(t.Context(), d.name))
	var connects atomic.Int64
	var moved atomic.Bool
	moved.Store(true)
	// The first two connections of an attempt are the monitor's and that of replication.
	s := d.sourceWith(wal.Options{Options: postgres.Options{WaitUntilVisible: true, DSN: func(context.Context) (string, error) {
		if connects.Add(1) > 2 && moved.Load() {
			return other.DSN(d.name, ""), nil
		}
		return server.DSN(d.name, ""), nil
	}}})
	r, failed := d.retry(s, func() { connects.Store(0) })
	d.insert(1, 1)
	for range 3 {
		select {
		case err := <-failed:
			if !strings.Contains(err.Error(), "different servers") {
				t.Fatal(err)
			}
		case <-r.Changed:
			cdctest.Violation(t, cdctest.Phantom, "%d events were handed on by another server's answer", len(r.Rows()))
			t.FailNow()
		case <-time.After(patience):
			t.Fatalf("no attempt ended within %s", patience)
		}
	}
	moved.Store(false)
	r.ExpectUpTo(1, 1)
}

// With * the relay is itself a standby for which commits wait, and it would wait for the commits. It refuses to start, and a relay
// that runs goes on once the setting is corrected.
func TestRelayIsNoSynchronousStandby(t *testing.T) {
	d := synchronousDatabase(t)
	s := d.sourceWith(wal.Options{Options: postgres.Options{WaitUntilVisible: true}})
	refuses := func(err error) {
		t.Helper()
		if !strings.Contains(cdc.Explain(err), "matches the relay itself") || !strings.Contains(cdc.Explain(err), "name the standbys in synchronous_standby_names") {
			t.Fatalf("%v", err)
		}
	}
	d.setNames("*")
	_, _, err := s.Acquire(t.Context(), none)
	refuses(err)
	if _, final := errors.AsType[*cdc.StopError](err); !final {
		t.Errorf("a start only waits: %v", err)
	}
	d.setNames("nobody")
	r, failed := d.retry(s, func() {})
	d.insert(1, 1)
	r.Await(1)
	d.setNames(`ANY 1 (nobody, "cdc-relay")`)
	for range 2 { // of the monitor, and of the next Acquire
		err := <-failed
		refuses(err)
		if _, final := errors.AsType[*cdc.StopError](err); final {
			t.Errorf("a running relay gives up: %v", err)
		}
	}
	done := d.held(insertSQL("2", "2"))
	d.setNames("")
	testenv.Must(t, <-done)
	r.ExpectUpTo(1, 2)
}
