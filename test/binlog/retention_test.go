package binlog

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/cleanup"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/test/conformance"
)

func (d *database) outbox() outbox.Name { return outbox.Name{Schema: d.name, Table: "outbox"} }

// keeper is a database whose table has partitions for the last days too, and a user that may maintain them.
type keeper struct {
	*database

	user   string
	params string // of the user's DSN
	saved  cdc.Checkpoint
	source cdc.Source
}

func keeping(d *database, days int) *keeper {
	d.t.Helper()
	k := &keeper{database: d, user: fmt.Sprintf("keep_%x", time.Now().UnixNano()), source: cdc.Source{SystemID: d.flavor, Database: d.name}}
	o := outbox.TableOptions{Name: d.outbox(), From: time.Now().AddDate(0, 0, -days), Ahead: days}
	steps := outbox.MySQLSetup(outbox.SetupOptions{
		Flavor: cdc.Flavor(d.flavor), Make: []outbox.TableOptions{o}, Read: []outbox.Name{d.outbox()}, Role: k.user, Maintain: []outbox.Name{d.outbox()},
	})
	d.exec("CREATE USER " + k.user)
	d.t.Cleanup(func() { _ = d.server.Exec(context.WithoutCancel(d.t.Context()), "", "DROP USER "+k.user) })
	for _, step := range steps {
		var statements []string
		for _, st := range step.Statements {
			statements = append(statements, st.SQL)
		}
		d.session(statements...)
	}
	return k
}

// parts connects as the user to the table's partitions.
func (k *keeper) parts() *mysql.Partitions {
	k.t.Helper()
	p, done := k.connect(k.server)
	k.t.Cleanup(done)
	return p
}

func (k *keeper) connect(server *testenv.MySQLServer) (p *mysql.Partitions, done func()) {
	k.t.Helper()
	dsn := server.UserDSN(k.user, "", k.name, k.params)
	db, err := mysql.OpenDatabase(k.t.Context(), mysql.Options{DSN: func(context.Context) (string, error) { return dsn, nil }})
	testenv.Must(k.t, err)
	return db.Partitions(k.outbox(), outbox.MySQLRoutine(k.outbox()), k.source, k.load), db.Close
}

func (k *keeper) load(context.Context) (cdc.Checkpoint, bool, error) {
	return k.saved, k.saved.Source != cdc.Source{}, nil
}

// relayed saves the end of the binlog as the checkpoint.
func (k *keeper) relayed() {
	k.t.Helper()
	k.saved = cdc.Checkpoint{Source: k.source, Progress: cdc.Progress{Position: cdc.Position(k.position())}}
}

// maintain returns what a Maintainer leaves undone in one pass as the user.
func (k *keeper) maintain(o cleanup.PartitionOptions) error {
	k.t.Helper()
	p, done := k.connect(k.server)
	defer done()
	testenv.Must(k.t, p.Maintainable(k.t.Context()))
	return conformance.Maintain(k.t, p, o)
}

func (k *keeper) takenOut() []cdc.Partition {
	k.t.Helper()
	p, done := k.connect(k.server)
	defer done()
	return conformance.TakenOut(k.t, p)
}

// insertAt inserts the events from..to with a created_at some days ago.
func (d *database) insertAt(days, from, to int) {
	d.t.Helper()
	for n := from; n <= to; n++ {
		d.exec(fmt.Sprintf("INSERT INTO %s (event_id, aggregate_type, aggregate_id, event_type, occurred_at, created_at) VALUES "+
			"(X'%032x', 'Order', '%d', 'placed', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) - INTERVAL %d DAY)", d.outbox().MySQL(), n, n, days))
	}
}

// held returns the numbers of the rows of a table, in order.
func (d *database) held(table string) string {
	d.t.Helper()
	var text sql.NullString
	if err := d.db.QueryRowContext(d.t.Context(), "SELECT GROUP_CONCAT(aggregate_id ORDER BY CAST(aggregate_id AS UNSIGNED)) FROM "+table).Scan(&text); err != nil {
		d.t.Fatalf("%s: %v", table, err)
	}
	return text.String
}

func daysAgo(n int) string { return time.Now().UTC().AddDate(0, 0, -n).Format("20060102") }

func twoDays() cleanup.PartitionOptions {
	return cleanup.PartitionOptions{Ahead: 5, TTL: 36 * time.Hour, Drop: true}
}

// Days that lack a partition although pmax has their rows are made all the same: the rows are taken out where they are.
//
//covers:binlogs 16 state both
func TestRowsInPmaxAreNotMoved(t *testing.T) {
	conform(t, func(c *conforming) {
		conformance.RowsOfNoDayAreNotMoved(c.t, c, func(part string) {
			table := part[strings.Index(part, ".")+1:]
			at := "STR_TO_DATE('" + strings.TrimPrefix(table, "outbox_max_") + "', '%Y%m%d%H%i%s')"
			c.session("SET @said = (SELECT CONCAT('ALTER TABLE "+table+" COMMENT = ', QUOTE(REPLACE(table_comment, CONCAT('until ', "+at+"), CONCAT('until ', "+at+" - INTERVAL 2 DAY)))) "+
				"FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = '"+table+"')", "PREPARE older FROM @said", "EXECUTE older")
		})
	})
}

// A pass that ends between any two steps is finished by the next one: every row is in the table or in what was taken out,
// once, and it is dropped only when it was relayed.
//
//covers:binlogs 16 state both
func TestInterruptedPass(t *testing.T) {
	onOlder(t, func(d *database) {
		t := d.t
		steps := []string{"finish", "spare", "flat", "exchange", "finish", "merge"}
		k := keeping(d, 5)
		for done := range len(steps) + 1 {
			d.exec("DELETE FROM outbox")
			d.insertAt(4, 1, 1)
			d.insertAt(3, 2, 2)
			d.insertAt(0, 9, 9)
			k.call(steps[:done], "p"+daysAgo(4))
			o := twoDays()
			o.Ahead, o.Drop = 0, false
			if err := k.maintain(o); err != nil {
				t.Fatalf("after %d steps: %v", done, err)
			}
			var all []string
			for _, part := range k.takenOut() {
				all = append(all, d.held(part.Name))
			}
			if got := strings.Join(append(all, d.held("outbox")), " "); got != "1 2 9" {
				cdctest.Violation(t, cdctest.Unpublished, "after %d steps the rows are %s, want 1 2 9", done, got)
			}
			k.relayed()
			o.Drop = true
			if err := k.maintain(o); err != nil {
				t.Fatalf("after %d steps: %v", done, err)
			}
			if out := k.takenOut(); len(out) > 0 {
				t.Errorf("still there: %v", out)
			}
			if got := d.held("outbox"); got != "9" {
				t.Errorf("after %d steps the table holds %s", done, got)
			}
			k.remake(5)
		}
	})
}

// remake makes the table anew.
func (k *keeper) remake(days int) {
	k.t.Helper()
	script := outbox.MySQLTable(outbox.TableOptions{Name: k.outbox(), From: time.Now().AddDate(0, 0, -days), Ahead: days})
	k.exec("DROP TABLE outbox")
	for _, st := range script.Up {
		k.exec(st.SQL)
	}
}

// call makes steps of a pass on a connection of its own.
func (k *keeper) call(steps []string, part string) {
	k.t.Helper()
	db := k.open(k.server.UserDSN(k.user, "", "", ""))
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(k.t.Context())
	testenv.Must(k.t, err)
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(k.t.Context(), "DO GET_LOCK('"+outbox.MySQLPartitionLock(k.outbox())+"', 0)"); err != nil {
		k.t.Fatal(err)
	}
	for _, step := range steps {
		if _, err := conn.ExecContext(k.t.Context(), call(k.outbox(), step, part)); err != nil {
			k.t.Fatalf("%s: %v", step, err)
		}
	}
}

func call(table outbox.Name, action, part string) string {
	return fmt.Sprintf("CALL %s('%s', '%s')", outbox.MySQLRoutine(table).MySQL(), action, strings.ReplaceAll(part, "'", "''"))
}

// A row that is inserted into a day after that was taken out stays in the table until the next pass, which takes it out too.
//
//covers:binlogs 16 state both
func TestLateRowIsKept(t *testing.T) {
	onOlder(t, func(d *database) {
		t := d.t
		k := keeping(d, 5)
		d.insertAt(4, 1, 1)
		d.insertAt(3, 2, 2)
		k.call([]string{"finish", "spare", "flat", "exchange"}, "p"+daysAgo(4))
		d.insertAt(4, 3, 3) // late, and before the day is merged into the next one
		o := twoDays()
		o.Ahead, o.Drop = 0, false
		for _, want := range []string{"1 2 3", "1 2 3 4"} {
			testenv.Must(t, k.maintain(o))
			var all []string
			for _, part := range k.takenOut() {
				all = append(all, strings.Split(d.held(part.Name), ",")...)
			}
			slices.Sort(all)
			if got := strings.Join(all, " "); got != want || d.held("outbox") != "" {
				t.Errorf("taken out: %s, want %s; in the table: %s", got, want, d.held("outbox"))
			}
			d.insertAt(4, 4, 4)
		}
	})
}

// The routine touches its table and what it took out of it, and nothing else, whatever the relay's user asks.
//
//covers:binlogs 16 state both
func TestRoutineTouchesItsTableOnly(t *testing.T) {
	onOlder(t, func(d *database) {
		t := d.t
		k := keeping(d, 3)
		d.insertAt(0, 1, 1)
		d.exec("CREATE TABLE outbox_20200101 LIKE outbox; CREATE TABLE precious (n INT) COMMENT 'cdc-relay: taken out of " + d.name + ".other, until 2026-01-02 00:00:00'")
		db := k.open(k.server.UserDSN(k.user, "", "", ""))
		defer func() { _ = db.Close() }()
		conn, err := db.Conn(t.Context())
		testenv.Must(t, err)
		defer func() { _ = conn.Close() }()
		if _, err := conn.ExecContext(t.Context(), call(d.outbox(), "spare", "")); err == nil || !strings.Contains(err.Error(), "does not hold the lock") {
			t.Errorf("without the lock: %v", err)
		}
		if _, err := conn.ExecContext(t.Context(), "DO GET_LOCK('"+outbox.MySQLPartitionLock(d.outbox())+"', 0)"); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.ExecContext(t.Context(), call(d.outbox(), "spare", "")); err != nil {
			t.Fatal(err)
		}
		for _, sql := range []string{
			call(d.outbox(), "drop", "outbox_20200101"),
			call(d.outbox(), "drop", "precious"),
			call(d.outbox(), "drop", "outbox"),
			call(d.outbox(), "drop", "precious; DROP TABLE precious"),
			call(d.outbox(), "flat", "p"+daysAgo(0)),                         // today
			call(d.outbox(), "exchange", "p"+daysAgo(0)),                     //
			call(d.outbox(), "exchange", "p20200101"),                        // not there
			call(d.outbox(), "merge", "p"+daysAgo(1)),                        // not the second
			call(d.outbox(), "make", daysAgo(0)),                             // exists
			call(d.outbox(), "make", "p2026-01-02')); DROP TABLE precious;"), //
			call(d.outbox(), "destroy", ""),                                  //
			"SELECT * FROM " + d.name + ".precious",                          // no right of its own
			"DROP TABLE " + d.name + ".outbox_spare",                         //
			"ALTER TABLE " + d.name + ".outbox DROP PARTITION p" + daysAgo(3),
			"DROP PROCEDURE " + outbox.MySQLRoutine(d.outbox()).MySQL(),
		} {
			if _, err := conn.ExecContext(t.Context(), sql); err == nil {
				t.Errorf("%s: no error", sql)
			}
		}
		if got := d.held("outbox"); got != "1" {
			t.Errorf("the table holds %s", got)
		}
		d.exec("SELECT 1 FROM precious")
		dropsNoYoungRows(d, conn)
	})
}

// dropsNoYoungRows tries to drop rows of the last partition, which may be of any age, through the routine.
func dropsNoYoungRows(d *database, conn *sql.Conn) {
	t := d.t
	t.Helper()
	d.insertAt(-40, 2, 3)
	do := func(action, part string) error {
		_, err := conn.ExecContext(t.Context(), call(d.outbox(), action, part))
		return err
	}
	for _, steps := range [][]string{
		{"finish ", "spare ", "flat p" + daysAgo(3), "exchange pmax"}, // as a day that has ended
		{"finish ", "spare ", "flat pmax", "exchange pmax", "flat p" + daysAgo(3)},
	} {
		var err error
		for _, step := range steps {
			if err != nil {
				t.Fatalf("%v: %v", steps, err)
			}
			action, part, _ := strings.Cut(step, " ")
			err = do(action, part)
		}
		if err == nil {
			t.Errorf("%v: no error", steps)
		}
	}
	testenv.Must(t, do("finish", ""))
	var out string
	d.scan("SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name LIKE 'outbox_max_%'", &out)
	if err := do("drop", out); err == nil || !strings.Contains(err.Error(), "within the last 24 hours") {
		t.Errorf("drop: %v", err)
	}
	if got := d.held("outbox"); got != "1" || d.held(out) != "2,3" {
		cdctest.Violation(t, cdctest.Unpublished, "the table holds %s, and %s %s", got, out, d.held(out))
	}
}

// A replica is left alone, and a server that takes no writes.
func TestPartitionsOfAReplicaAreLeftAlone(t *testing.T) {
	for _, kind := range []string{testenv.MySQLFlavor, testenv.MariaDBFlavor} {
		t.Run(kind, func(t *testing.T) {
			// The binlog of the shared server has what replicas stop at.
			d := newDatabaseOn(t, testenv.MySQL(t, testenv.MySQLOptions{Flavor: kind}))
			k := keeping(d, 3)
			d.exec("GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO " + k.user)
			if kind == testenv.MariaDBFlavor {
				d.exec("GRANT REPLICA MONITOR ON *.* TO " + k.user)
			}
			replica := testenv.MySQLReplica(t, d.server, testenv.MySQLOptions{})
			p, done := k.connect(replica)
			defer done()
			err := p.Maintainable(t.Context())
			if err == nil || !strings.Contains(cdc.Explain(err), "primary") {
				t.Errorf("read-only replica: %v", err)
			}
			testenv.Must(t, replica.Exec(t.Context(), "", "SET GLOBAL read_only = OFF"))
			p, done = k.connect(replica)
			defer done()
			if err := p.Maintainable(t.Context()); err == nil {
				t.Error("a replica that takes writes is maintained")
			}
		})
	}
}

// Where the end of what was taken out is not noted, it is dropped once the relay is at the end of the binlog.
//
//covers:binlogs 16 state both
func TestPositionIsNotNoted(t *testing.T) {
	onOlder(t, func(d *database) {
		t := d.t
		k := keeping(d, 4)
		d.insertAt(3, 1, 1)
		o := twoDays()
		o.Drop = false
		testenv.Must(t, k.maintain(o))
		name := "outbox_" + daysAgo(3)
		k.relayed()
		comment, _, _ := strings.Cut(d.comment(name), ", GTID ")
		d.exec("ALTER TABLE " + name + " COMMENT = '" + comment + "'")
		for _, relayed := range []bool{false, true} {
			if out := k.takenOut(); len(out) != 1 || out[0].Relayed != relayed {
				t.Errorf("want relayed %t: %v", relayed, out)
			}
			k.relayed()
		}
	})
}

// A column that was added with ALGORITHM = INSTANT keeps MySQL from exchanging partitions; the error says how to go on.
func TestInstantColumn(t *testing.T) {
	d := newDatabase(t, testenv.MySQLFlavor)
	k := keeping(d, 4)
	d.insertAt(3, 1, 1)
	d.exec("ALTER TABLE outbox ADD COLUMN note TEXT, ALGORITHM = INSTANT")
	p := k.parts()
	err := p.TakeOut(t.Context(), conformance.Day(t, p, 3))
	fix, _, _ := strings.Cut(cdc.Fix(err), ", which")
	if fix = strings.TrimPrefix(fix, "run "); !strings.HasPrefix(fix, "ALTER TABLE") {
		t.Fatalf("%v", err)
	}
	d.exec(fix)
	testenv.Must(t, p.TakeOut(t.Context(), conformance.Day(t, p, 3)))
	if out := k.takenOut(); len(out) != 1 || out[0].Name != d.name+".outbox_"+daysAgo(3) {
		t.Errorf("taken out: %v", out)
	}
}
