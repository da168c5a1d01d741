package binlog

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/test/conformance"
)

// rows returns the rows of table events and whether they can be deleted by a user.
func (d *database) rows(user string, load cdc.Loader) (*mysql.Rows, error) {
	d.t.Helper()
	db, err := mysql.OpenDatabase(d.t.Context(), mysql.Options{DSN: func(context.Context) (string, error) { return d.server.UserDSN(user, "", d.name, ""), nil }})
	testenv.Must(d.t, err)
	d.t.Cleanup(db.Close)
	r := db.Rows(mysql.RowOptions{
		RowAction: cdc.RowAction{Table: d.name + ".events", Key: "id", At: "at", OlderThan: conformance.Month}, Source: cdc.Source{Database: d.name}, Load: load,
	})
	err = r.Verify(d.t.Context())
	return r, err
}

// A transaction whose GTID is not in gtid_executed yet, but whose rows may be seen, counts as not relayed.
func TestOldRowsOfAnUnfinishedCommitStay(t *testing.T) {
	d := newDatabase(t, "mysql")
	d.exec("CREATE TABLE events (id BIGINT PRIMARY KEY, at DATETIME(6))")
	executed := func() cdc.Position {
		var set string
		d.scan("SELECT @@GLOBAL.gtid_executed", &set)
		return cdc.Position(set)
	}
	var saved cdc.Position
	r, err := d.rows("root", func(context.Context) (cdc.Checkpoint, bool, error) {
		return cdc.Checkpoint{Source: cdc.Source{Database: d.name}, Progress: cdc.Progress{Position: saved}}, true, nil
	})
	testenv.Must(t, err)
	conn, err := d.db.Conn(t.Context())
	testenv.Must(t, err)
	defer conn.Close()
	for _, sql := range []string{"SET gtid_next = 'aaaaaaaa-0000-4000-8000-000000000001:7'", "BEGIN", "INSERT INTO events VALUES (1, NULL)"} {
		if _, err := conn.ExecContext(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	_, behind, err := r.Due(t.Context(), 1)
	saved = executed()
	if passed, perr := r.Passed(t.Context(), behind); errors.Join(err, perr) != nil {
		t.Fatal(err, perr)
	} else if passed {
		cdctest.Violation(t, cdctest.Unpublished, "%s is behind %q, and the transaction has no GTID yet", saved, behind)
	}
	for _, sql := range []string{"COMMIT", "SET gtid_next = AUTOMATIC"} {
		if _, err := conn.ExecContext(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	saved = executed()
	if passed, err := r.Passed(t.Context(), behind); err != nil || !passed {
		t.Errorf("%s is not behind %q: %v", saved, behind, err)
	}
}

func (d *database) scan(query string, dest ...any) {
	d.t.Helper()
	if err := d.db.QueryRowContext(d.t.Context(), query).Scan(dest...); err != nil {
		d.t.Fatalf("%s: %v", query, err)
	}
}

// Where transactions only read unless they ask for more, the sessions that write do. One that finds rows ends a read before its client gives up.
func TestSessionsThatWrite(t *testing.T) {
	for kind, variables := range map[string][2]string{"mysql": {"transaction_read_only", "max_execution_time = 50000"}, "mariadb": {"tx_read_only", "max_statement_time = 50"}} {
		t.Run(kind, func(t *testing.T) {
			d := newDatabase(t, kind)
			k := keeping(d, 1)
			k.params = variables[0] + "=1"
			d.exec("CREATE TABLE events (id BIGINT PRIMARY KEY, at DATETIME(6) NOT NULL DEFAULT '2000-01-01', sent INT NOT NULL DEFAULT 0)")
			d.exec("INSERT INTO events (id) VALUES (1)")
			keys := []cdc.RowKey{{ID: "1", Value: int64(1)}}
			act := func(db *mysql.Database, a cdc.RowAction) error {
				a.Table, a.Key = d.name+".events", "id"
				r := db.Rows(mysql.RowOptions{RowAction: a})
				err := r.Verify(t.Context())
				if err == nil {
					_, err = r.Act(t.Context(), keys, false)
				}
				return err
			}
			for _, step := range []struct {
				name string
				do   func(db *mysql.Database) error
			}{
				{"setup", func(db *mysql.Database) error {
					return db.Exec(t.Context(), "insert", "INSERT INTO "+d.name+".events (id) VALUES (2)")
				}},
				{"write_back", func(db *mysql.Database) error {
					return act(db, cdc.RowAction{Pending: "sent = 0", Set: []cdc.Assignment{{Column: "sent", SQL: "IF(@@SESSION." + variables[1] + ", 1, NULL)"}}})
				}},
				{"retention", func(db *mysql.Database) error {
					return act(db, cdc.RowAction{At: "at"})
				}},
			} {
				db, err := mysql.OpenDatabase(t.Context(), mysql.Options{DSN: func(context.Context) (string, error) { return d.server.DSN(d.name, k.params), nil }})
				if err == nil {
					err = step.do(db)
					db.Close()
				}
				if err != nil {
					t.Errorf("%s: %v", step.name, err)
				}
			}
			if err := k.parts().Make(t.Context(), time.Now().AddDate(0, 0, 5), false); err != nil {
				t.Errorf("partitions: %v", err)
			}
		})
	}
}
