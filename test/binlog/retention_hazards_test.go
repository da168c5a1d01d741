package binlog

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/cleanup"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/test/conformance"
)

func (d *database) comment(table string) (text string) {
	d.t.Helper()
	d.scan("SELECT table_comment FROM information_schema.tables WHERE table_schema = '"+d.name+"' AND table_name = '"+table+"'", &text)
	return text
}

// restored gives a table the comment that it would have if it were restored from a dump of an hour ago.
func (d *database) restored(table string) {
	d.t.Helper()
	noted := regexp.MustCompile(`noted [0-9 :-]+`)
	d.exec("ALTER TABLE " + table + " COMMENT = '" + noted.ReplaceAllString(d.comment(table), "noted "+time.Now().UTC().Add(-time.Hour).Format(time.DateTime)) + "'")
}

// A table of the name that is used between two steps is not touched: one of somebody else, or of a dump that was made then.
//
//covers:binlogs 16 state both
func TestNameInTheWay(t *testing.T) {
	onOlder(t, func(d *database) {
		t := d.t
		k := keeping(d, 4)
		d.insertAt(3, 1, 1)
		day := conformance.Day(t, k.parts(), 3)
		takeOut := func() error {
			p, done := k.connect(k.server) // which ends the lock
			defer done()
			return p.TakeOut(t.Context(), day)
		}
		for _, way := range []string{"somebody's", "somebody's, with rows", "of a dump"} {
			switch way {
			case "of a dump":
				k.call([]string{"spare", "flat"}, day.Name)
				d.restored("outbox_spare")
			default:
				d.exec("CREATE TABLE outbox_spare LIKE outbox; ALTER TABLE outbox_spare REMOVE PARTITIONING")
			}
			if way != "somebody's" {
				d.exec("INSERT INTO outbox_spare SELECT * FROM outbox")
			}
			if err := takeOut(); err == nil || !strings.Contains(cdc.Explain(err), "outbox_spare") || !strings.Contains(cdc.Explain(err), "RENAME TABLE") {
				t.Errorf("%s: it says %v", way, err)
			}
			if got, want := d.held("outbox_spare"), map[bool]string{true: "", false: "1"}[way == "somebody's"]; got != want {
				t.Errorf("%s: the table holds %q", way, got)
			}
			d.exec("DROP TABLE outbox_spare")
		}
		if err := takeOut(); err != nil {
			t.Error(err)
		}
	})
}

// A checkpoint with transactions that the server does not have tells nothing: those that are still to come would count as relayed.
//
//covers:binlogs 16 state both
func TestServerThatLostItsHistoryDropsNothing(t *testing.T) {
	onOlder(t, func(d *database) {
		t := d.t
		k := keeping(d, 4)
		d.insertAt(3, 1, 1)
		p := k.parts()
		testenv.Must(t, p.TakeOut(t.Context(), conformance.Day(t, p, 3)))
		k.relayed()
		if d.flavor == testenv.MariaDBFlavor {
			k.saved.Progress.Position += ",4711-1-1"
		} else {
			k.saved.Progress.Position += ",aaaaaaaa-0000-4000-8000-000000000009:1"
		}
		if part := conformance.TakenOut(t, p)[0]; part.Relayed {
			cdctest.Violation(t, cdctest.Unpublished, "relayed: %+v", part)
		} else if !strings.Contains(cdc.Explain(part.Kept), "ahead of the server") {
			t.Errorf("kept: %+v", part)
		}
		d.exec("CREATE TABLE events (id BIGINT PRIMARY KEY, at DATETIME(6)); INSERT INTO events VALUES (1, UTC_TIMESTAMP() - INTERVAL 1 DAY)")
		k.saved.Source = cdc.Source{Database: d.name}
		r, err := d.rows("root", func(context.Context) (cdc.Checkpoint, bool, error) { return k.saved, true, nil })
		testenv.Must(t, err)
		if passed, err := r.Passed(t.Context(), cdc.Position(d.position())); passed {
			cdctest.Violation(t, cdctest.Unpublished, "rows are relayed: %v", err)
		} else if err == nil {
			t.Error("no error")
		}
	})
}

// While the server gives transactions no GTIDs no position tells what is published.
//
//covers:binlogs 16 state both
func TestNothingIsDroppedWithoutGTIDs(t *testing.T) {
	d := newDatabaseOn(t, testenv.MySQL(t, testenv.MySQLOptions{}))
	k := keeping(d, 3)
	d.exec("SET GLOBAL gtid_mode = ON_PERMISSIVE")
	if err := k.parts().Maintainable(t.Context()); err == nil || !strings.Contains(err.Error(), "gtid_mode") {
		t.Errorf("partitions: %v", err)
	}
	d.exec("CREATE TABLE events (id BIGINT PRIMARY KEY, at DATETIME(6))")
	if _, err := d.rows("root", nothing); err == nil || !strings.Contains(err.Error(), "gtid_mode") {
		t.Errorf("rows: %v", err)
	}
}

// A connection that does not commit by itself would wait for its own lock, and take back what it deleted. With a limit it would see
// one setting of the server, and one partition.
func TestMaintenanceWithOtherDefaults(t *testing.T) {
	onOlder(t, func(d *database) {
		t := d.t
		k := keeping(d, 4)
		k.params = "autocommit=0&time_zone=%27%2B05%3A30%27&sql_select_limit=1"
		d.insertAt(3, 1, 1)
		p := k.parts()
		testenv.Must(t, p.TakeOut(t.Context(), conformance.Day(t, p, 3)))
		k.relayed()
		part := conformance.TakenOut(t, p)[0]
		if !part.Relayed {
			t.Fatalf("%+v", part)
		}
		testenv.Must(t, p.Drop(t.Context(), part))
	})
}

// The connection is lost, and the lock with it: no other one is said to hold it.
func TestLostLockOfThePartitions(t *testing.T) {
	onOlder(t, func(d *database) {
		t := d.t
		k := keeping(d, 4)
		p := k.parts()
		day := time.Now().AddDate(0, 0, 20)
		testenv.Must(t, p.Make(t.Context(), day, false))
		var holder sql.NullInt64
		look := func() { d.scan("SELECT IS_USED_LOCK('"+outbox.MySQLPartitionLock(k.outbox())+"')", &holder) }
		look()
		d.exec(fmt.Sprintf("KILL %d", holder.Int64))
		for holder.Valid {
			look()
		}
		if err := p.Make(t.Context(), day.AddDate(0, 0, 1), false); err == nil || !strings.Contains(err.Error(), "does not hold the lock") {
			t.Error(err)
		}
	})
}

// A procedure of another version, or that was changed, does not do.
//
//covers:binlogs 16 state both
func TestRoutineIsThisVersions(t *testing.T) {
	onOlder(t, func(d *database) {
		t := d.t
		db, err := mysql.OpenDatabase(t.Context(), d.options(binlog.Options{}).Options)
		testenv.Must(t, err)
		defer db.Close()
		for _, table := range []string{"outbox", `b\s's`, "Größe"} {
			name := outbox.Name{Schema: d.name, Table: table}
			routine := outbox.MySQLRoutine(name)
			may := func() bool {
				t.Helper()
				ok, err := db.MayMaintain(t.Context(), name)
				testenv.Must(t, err)
				return ok
			}
			statements := outbox.MySQLMaintenance(cdc.Flavor(d.flavor), name, routine)
			text := statements[2].SQL
			for _, tt := range []struct {
				what, mode, sql string
				may             bool
			}{
				{"this", statements[0].SQL, text, true},
				{"changed", statements[0].SQL, strings.Replace(text, "DECLARE n INT", "DECLARE n BIGINT", 1), false},
				{"other rights", statements[0].SQL, strings.Replace(text, "SECURITY DEFINER", "SECURITY INVOKER", 1), false},
				{"other mode", "SET SESSION sql_mode = 'ANSI'", text, false},
				{"older", statements[0].SQL, strings.Replace(text, "action = 'body'", "action = 'boy'", 1), false},
				{"none", statements[0].SQL, "DO 0", false},
			} {
				d.session(tt.mode, statements[1].SQL, tt.sql)
				if got := may(); got != tt.may {
					t.Errorf("%s: %s: %t", table, tt.what, got)
				}
			}
		}
	})
}

// A procedure of another version is not called on: the error says to run setup.
func TestRoutineOfAnotherVersion(t *testing.T) {
	onOlder(t, func(d *database) {
		k := keeping(d, 3)
		text := outbox.MySQLMaintenance(cdc.Flavor(d.flavor), d.outbox(), outbox.MySQLRoutine(d.outbox()))
		d.session(text[0].SQL, text[1].SQL, "CREATE PROCEDURE "+outbox.MySQLRoutine(d.outbox()).MySQL()+"(a TEXT, b TEXT) SELECT 1, 2, 3, 4")
		d.exec("GRANT EXECUTE ON PROCEDURE " + outbox.MySQLRoutine(d.outbox()).MySQL() + " TO " + k.user)
		if err := k.maintain(cleanup.PartitionOptions{}); err == nil || !strings.Contains(cdc.Explain(err), "setup") {
			d.t.Errorf("%v", cdc.Explain(err))
		}
	})
}
