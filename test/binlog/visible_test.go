package binlog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/test/conformance"
)

// semiSync are the names of a server's settings of semi-synchronous replication.
func (d *database) semiSync() (enabled, timeout, point string) {
	role := "source"
	if d.flavor == testenv.MariaDBFlavor {
		role = "master"
	}
	prefix := "rpl_semi_sync_" + role + "_"
	return prefix + "enabled", prefix + "timeout", prefix + "wait_point"
}

// hold lets no commit become visible until release: it waits for a semi-sync replica, and there is none.
func (d *database) hold() {
	d.t.Helper()
	enabled, timeout, point := d.semiSync()
	if d.flavor == testenv.MySQLFlavor {
		_, err := d.db.ExecContext(d.t.Context(), "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'")
		if err != nil && !strings.Contains(err.Error(), "already") {
			d.t.Fatal(err)
		}
	}
	d.exec(fmt.Sprintf("SET GLOBAL %s = 4000000000, %s = 'AFTER_SYNC', %s = ON", timeout, point, enabled))
	d.t.Cleanup(func() { _ = d.server.Exec(context.WithoutCancel(d.t.Context()), "", "SET GLOBAL "+enabled+" = OFF") })
}

func (d *database) release() {
	d.t.Helper()
	enabled, _, _ := d.semiSync()
	d.exec("SET GLOBAL " + enabled + " = OFF")
}

// later runs statements on a connection of its own, and returns what ends with them.
func (d *database) later(statements ...string) <-chan error {
	done := make(chan error, 1)
	db := d.open(d.dsn)
	go func() {
		defer db.Close()
		_, err := db.ExecContext(d.t.Context(), strings.Join(statements, "; "))
		done <- err
	}()
	return done
}

// asks gives sources a user of their own, so that their connections can be told from others.
func (d *database) asks() {
	d.t.Helper()
	d.exec("CREATE USER IF NOT EXISTS asks@'127.0.0.1' IDENTIFIED BY 'secret'; GRANT ALL ON *.* TO asks@'127.0.0.1'")
	d.dsn = d.server.UserDSN("asks", "secret", d.name, "")
}

// patient is a source that waits until rows are visible, and what it reports.
func (d *database) patient() (*binlog.Source, *cdc.Problems) {
	d.asks()
	problems := new(cdc.Problems)
	o := d.options(current())
	o.WaitUntilVisible, o.Problems = true, problems
	return newSource(o), problems
}

// questions counts the queries that the server has answered.
func (d *database) questions() int {
	d.t.Helper()
	values, err := d.server.Column(d.t.Context(), "SHOW GLOBAL STATUS LIKE 'Com_select'", "Value")
	testenv.Must(d.t, err)
	n, err := strconv.Atoi(values[0])
	testenv.Must(d.t, err)
	return n
}

// heldBack waits until the source has asked again and again, and verifies that it has handed on nothing that cannot be read.
func (d *database) heldBack(r *conformance.Running, want ...int) {
	d.t.Helper()
	const several = 4
	before := d.questions()
	until(d.t, func() bool { return d.questions() >= before+several || len(r.Rows()) > len(want) })
	r.Expect(want...)
	var seen int
	d.scan("SELECT COUNT(*) FROM outbox", &seen)
	if seen != len(want) {
		d.t.Fatalf("%d rows can be read, want %d: the test held no commit back", seen, len(want))
	}
}

// newFile waits until the server has begun another file of the binlog than those that it has now.
func (d *database) newFile() (wait func()) {
	d.t.Helper()
	if d.flavor == testenv.MySQLFlavor { // which begins it after the commit
		return func() {}
	}
	file := func() string {
		values, err := d.server.Column(d.t.Context(), "SHOW STATUS LIKE 'binlog_snapshot_file'", "Value")
		testenv.Must(d.t, err)
		return values[0]
	}
	before := file()
	return func() { until(d.t, func() bool { return file() != before }) }
}

// A row is handed on once a statement sees it: not while its commit waits for a replica, whatever happens to the binlog's files
// meanwhile.
//
//covers:binlogs 36 rows both
func TestRowsWaitUntilTheyAreVisible(t *testing.T) {
	for kind := range servers {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			t.Run("alone", func(t *testing.T) { newDatabase(t, kind).waits() })
			t.Run("rotation", func(t *testing.T) {
				d := newDatabase(t, kind)
				d.exec("SET GLOBAL max_binlog_size = 4096")
				defer func() {
					d.release()
					d.exec("SET GLOBAL max_binlog_size = DEFAULT")
				}()
				d.waits("INSERT INTO other VALUES (REPEAT('x', 9000))", insert(3))
			})
			t.Run("flush", func(t *testing.T) { newDatabase(t, kind).waits("FLUSH BINARY LOGS") })
		})
	}
}

// waits writes rows whose commits are held back, and meanwhile runs a statement that begins a new file of the binlog; another one is row 3.
func (d *database) waits(meanwhile ...string) {
	t := d.t
	d.simple()
	d.exec("CREATE TABLE other (pad LONGBLOB)")
	d.exec("FLUSH BINARY LOGS")
	d.exec("INSERT INTO other VALUES (REPEAT('x', 9000))") // offsets behind the first ones of the next file
	source, problems := d.patient()
	r := start(t, source, none)
	d.exec(insert(1))
	r.Expect(1)
	d.hold()
	began := d.newFile()
	second := d.later(insert(2))
	d.heldBack(r, 1)
	if len(meanwhile) == 0 {
		until(t, func() bool { return len(problems.List()) > 0 }) // after 10 s
		d.release()
		succeed(t, second)
		r.Expect(1, 2)
		until(t, func() bool { return len(problems.List()) == 0 })
		return
	}
	waiting, seen := []<-chan error{second}, []int{1, 2}
	for i, statement := range meanwhile {
		waiting = append(waiting, d.later(statement))
		if i == 0 {
			began()
		} else {
			seen = append(seen, 3)
		}
	}
	d.heldBack(r, 1)
	d.release()
	succeed(t, waiting...)
	r.Expect(seen...)
	d.hold()
	last := d.later(insert(4))
	d.heldBack(r, seen...)
	d.release()
	succeed(t, last)
	r.Expect(append(seen, 4)...)
}

// Whatever a transaction is made of, its rows wait, also while the connection that asks is cut again and again.
//
//covers:binlogs 36 rows both
func TestEveryKindOfTransactionWaits(t *testing.T) {
	const many = 6000
	type transaction struct {
		statements []string
		rows       int
	}
	for _, kind := range []string{"mariadb", "mariadb118", "mysql"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			for name, tx := range map[string]transaction{
				"one statement":   {[]string{insert(2)}, 1},
				"savepoints":      {[]string{"BEGIN", "SAVEPOINT a", insert(100), "ROLLBACK TO a", "SAVEPOINT b", insert(2), "RELEASE SAVEPOINT b", "COMMIT"}, 1},
				"XA in one phase": {[]string{"XA START 'x'", insert(2), "XA END 'x'", "XA COMMIT 'x' ONE PHASE"}, 1},
				"several batches": {[]string{deep[servers[kind].Flavor], "BEGIN", big(2, many), "COMMIT"}, many},
			} {
				t.Run(name, func(t *testing.T) {
					d := newDatabase(t, kind)
					d.simple()
					source, _ := d.patient()
					r := start(t, source, none)
					d.exec(insert(1))
					r.Expect(1)
					d.hold()
					began := d.newFile()
					done := d.later(tx.statements...)
					for range 3 {
						d.heldBack(r, 1)
						d.killWitness()
					}
					flushed := d.later("FLUSH BINARY LOGS")
					began()
					d.heldBack(r, 1)
					d.release()
					succeed(t, done, flushed)
					r.ExpectUpTo(1, 1+tx.rows)
				})
			}
		})
	}
}

// While commits wait, MariaDB does not list the files of its binlog, and keeps a thread for each list that was asked for: all attempts
// together leave one.
func TestAttemptsWhileCommitsWait(t *testing.T) {
	on(t, []string{"mariadb", "mariadb118"}, func(d *database) {
		t := d.t
		d.simple()
		source, _ := d.patient()
		d.hold()
		first, second := d.later(insert(1)), d.later(insert(2)) // the second one holds what the list needs
		attempt := func() (ok bool) {
			_, _, err := source.Acquire(t.Context(), none)
			source.Release(t.Context())
			if err != nil && !strings.Contains(cdc.Explain(err), "does not list its binlog files") {
				t.Fatal(err)
			}
			return err == nil
		}
		until(t, func() bool { return !attempt() })
		for range 3 {
			if attempt() {
				t.Fatal("an attempt succeeded while commits wait")
			}
		}
		stuck, err := d.server.Value(t.Context(), "SELECT COUNT(*) FROM information_schema.processlist WHERE info IN ('SHOW BINARY LOGS', 'SHOW BINLOG STATUS')")
		if err != nil || stuck != "1" {
			t.Errorf("%s lists hang, want 1: %v", stuck, err)
		}
		d.release()
		succeed(t, first, second)
		until(t, attempt)
	})
}

// What setup stores while a commit waits is before that: its row cannot be seen, and must be published.
func TestFirstPositionWhileACommitWaits(t *testing.T) {
	on(t, []string{"mariadb", "mariadb118"}, func(d *database) {
		t := d.t
		d.simple()
		db, err := mysql.OpenDatabase(t.Context(), d.options(binlog.Options{}).Options)
		testenv.Must(t, err)
		defer db.Close()
		end := func() cdc.Position {
			in, err := binlog.Inspect(t.Context(), db, d.options(binlog.Options{}), none)
			testenv.Must(t, err)
			return in.Executed
		}
		before, written := end(), d.position()
		d.hold()
		held := d.later(insert(1))
		until(t, func() bool { return d.position() != written })
		if after := end(); after != before {
			t.Errorf("%s, want %s", after, before)
		}
		d.release()
		succeed(t, held)
	})
}

// MariaDB says that a file is settled behind what was written to it meanwhile, as a large transaction. The relay reads on to there
// without a pause.
func TestSettledBehindALargeTransaction(t *testing.T) {
	const statements, questions = 5000, 40
	on(t, []string{"mariadb", "mariadb118"}, func(d *database) {
		t := d.t
		d.simple()
		d.exec("CREATE TABLE other (n INT)")
		source, _ := d.patient()
		r := start(t, source, none)
		d.exec(insert(1))
		r.Expect(1)
		d.hold()
		began := d.newFile()
		first := d.later(insert(2))
		d.heldBack(r, 1)
		flushed := d.later("FLUSH BINARY LOGS")
		began()
		large := d.later("BEGIN", strings.Repeat("INSERT INTO other VALUES (1); ", statements)+"COMMIT")
		until(t, func() bool {
			waits, err := d.server.Value(t.Context(), "SELECT COUNT(*) FROM information_schema.processlist WHERE info = 'COMMIT'")
			return err == nil && waits == "1"
		})
		before := d.questions()
		d.release()
		succeed(t, first, flushed, large)
		d.exec(insert(3))
		r.Expect(1, 2, 3)
		if n := d.questions() - before; n > questions {
			t.Errorf("%d questions until the rows were handed on, want %d at most", n, questions)
		}
	})
}

// succeed waits for statements of later.
func succeed(t *testing.T, statements ...<-chan error) {
	t.Helper()
	for _, done := range statements {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// movable is a source that waits for visible rows, and the address of its server, which may be changed.
func (d *database) movable() (*binlog.Source, *atomic.Value) {
	dsn := &atomic.Value{}
	dsn.Store(d.dsn)
	o := d.options(current())
	o.WaitUntilVisible = true
	o.DSN = func(context.Context) (string, error) { return dsn.Load().(string), nil }
	return newSource(o), dsn
}

// Another server's answer says nothing about the one that is read: nothing is handed on, until both are the same again. A
// connection that was only lost is made again.
//
//covers:binlogs 31 rows both
func TestVisibilityOfAnotherServer(t *testing.T) {
	others := map[string]string{"mysql": "mysql", "mariadb": "mariadb118", "mariadb118": "mariadb"}
	onEach(t, func(d *database) {
		t := d.t
		d.simple()
		d.asks()
		s, dsn := d.movable()
		r := start(t, s, none)
		d.exec(insert(1))
		r.Expect(1)
		d.killWitness()
		d.exec(insert(2))
		r.Expect(1, 2)
		other := servers[others[strings.TrimPrefix(t.Name(), "TestVisibilityOfAnotherServer/")]]
		if other == d.server {
			other = testenv.MySQL(t, testenv.MySQLOptions{Flavor: d.flavor})
		}
		dsn.Store(other.DSN("", ""))
		d.killWitness()
		d.exec(insert(3))
		if err := r.Ended(); err == nil || !strings.Contains(err.Error(), "two servers") {
			t.Errorf("%v, want an error about two servers", err)
		}
		r.Expect(1, 2)
		dsn.Store(d.dsn)
		r = r.Again(none)
		r.Expect(1, 2, 3)
	})
}

// A server that twice does not answer whether a transaction is visible has not damaged its binlog: the relay tries again.
//
//covers:binlogs 36 rows both
func TestVisibilityCannotBeAsked(t *testing.T) {
	onEach(t, func(d *database) {
		t := d.t
		d.simple()
		d.asks()
		s, dsn := d.movable()
		refusing := "root@tcp(" + refuses(t) + ")/"
		r := start(t, s, none)
		d.exec(insert(1))
		r.Expect(1)
		d.hold()
		held := d.later(insert(2))
		for range 3 {
			d.heldBack(r, 1)
			dsn.Store(refusing)
			d.killWitness()
			var stop *cdc.StopError
			if err := r.Ended(); err == nil || errors.As(err, &stop) {
				t.Fatalf("%v, want an error that passes", err)
			}
			dsn.Store(d.dsn)
			r = r.Again(none)
		}
		d.heldBack(r, 1)
		d.release()
		succeed(t, held)
		r.Expect(1, 2)
	})
}

// refuses returns the address of a server that is shutting down, as it says to each client.
func refuses(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	testenv.Must(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			const said = "\xff\x1d\x04#08S01Server shutdown in progress"
			_, _ = conn.Write(append([]byte{byte(len(said)), 0, 0, 0}, said...))
			_ = conn.Close()
		}
	})
	t.Cleanup(func() { _ = listener.Close(); serving.Wait() })
	return listener.Addr().String()
}

// killWitness ends the connection on which a source asks what is visible.
func (d *database) killWitness() {
	d.t.Helper()
	var ids []string
	until(d.t, func() (one bool) {
		var err error
		ids, err = d.server.Column(d.t.Context(), "SELECT id AS asks FROM information_schema.processlist WHERE command = 'Sleep' AND user = 'asks' AND db IS NULL", "asks")
		return err == nil && len(ids) == 1
	})
	d.exec("KILL " + ids[0])
}

// check warns of semi-synchronous replication that does not keep published rows through a failover.
func TestCheckOfSemiSync(t *testing.T) {
	onEach(t, func(d *database) {
		t := d.t
		d.simple()
		warnings := func() (list []string) {
			found, _ := binlog.Check(t.Context(), d.options(current()), none)
			for _, f := range found {
				if f.Subject == "visibility" {
					list = append(list, f.Text+f.Fix)
				}
			}
			return list
		}
		if list := warnings(); len(list) > 0 {
			t.Errorf("without semi-sync: %q", list)
		}
		d.hold()
		if list := warnings(); len(list) > 0 {
			t.Errorf("with a long timeout: %q", list)
		}
		_, timeout, point := d.semiSync()
		d.exec(fmt.Sprintf("SET GLOBAL %s = 10000, %s = 'AFTER_COMMIT'", timeout, point))
		if list := warnings(); len(list) != 2 || !strings.Contains(list[0], point) || !strings.Contains(list[1], timeout) || !strings.HasSuffix(list[1], "if commits may wait while no replica runs") {
			t.Errorf("%q", list)
		}
	})
}
