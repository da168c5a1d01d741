package binlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/retention"
)

// rows returns the rows of table events and whether they can be deleted by a user.
func (d *database) rows(user string, load cdc.Loader) (*binlog.Rows, error) {
	d.t.Helper()
	db, err := binlog.OpenDatabase(d.t.Context(), binlog.Options{DSN: func(context.Context) (string, error) { return d.server.UserDSN(user, "", d.name, ""), nil }})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(db.Close)
	r := db.Rows(binlog.RowOptions{Table: d.name + ".events", Key: "id", At: "at", Source: cdc.Source{Database: d.name}, Load: load})
	err = r.Verify(d.t.Context())
	return r, err
}

// Rows are deleted by keys of every kind, to the last digit, and no others: numbers that differ in their last digit, texts that
// differ in case only.
func TestOldRowsAreDeletedByTheirKey(t *testing.T) {
	onEach(t, func(d *database) {
		for kind, ids := range map[string][4]string{
			"BIGINT UNSIGNED":                        {"18446744073709551612", "18446744073709551613", "18446744073709551614", "18446744073709551615"},
			"BIGINT":                                 {"-9223372036854775807", "9223372036854775805", "9223372036854775806", "9223372036854775807"},
			"DECIMAL(38,0)":                          {"12345678901234567890123456789012345671", "12345678901234567890123456789012345672", "12345678901234567890123456789012345673", "12345678901234567890123456789012345674"},
			"BINARY(16)":                             {"X'FF000000000000000000000000000027'", "X'FF00000000000000000000000000005C'", "X'FF00000000000000000000000000FFFF'", "X'00000000000000000000000000000000'"},
			"VARCHAR(64) COLLATE utf8mb4_bin":        {`'a'`, `'A'`, `'é''"'`, `'e'`},
			"CHAR(36) CHARACTER SET latin1":          {`'0190c9a2-0000-7000-8000-000000000001'`, `'é'`, `'0190c9a2-0000-7000-8000-000000000002'`, `'0190c9a2-0000-7000-8000-000000000003'`},
			"VARBINARY(20)":                          {"'a'", "'b'", "'c'", "''"},
			"VARCHAR(64) COLLATE utf8mb4_general_ci": {"'x'", "'y'", `'\\'`, "'z'"},
		} {
			d.exec("DROP TABLE IF EXISTS events")
			d.exec("CREATE TABLE events (id " + kind + " NOT NULL, at DATETIME(6), UNIQUE (id))")
			for i, id := range ids {
				d.exec(fmt.Sprintf("INSERT INTO events VALUES (%s, UTC_TIMESTAMP(6) - INTERVAL %d DAY)", id, []int{40, 20, 40, 20}[i]))
			}
			r, err := d.rows("root", nothing)
			if err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			age := 30 * 24 * time.Hour
			keys, _, err := r.Old(t.Context(), age, 10)
			if err != nil || len(keys) != 2 {
				t.Fatalf("%s: %v, %v", kind, keys, err)
			}
			n, _, err := r.Delete(t.Context(), keys, age)
			var left, young int
			d.scan("SELECT COUNT(*), COALESCE(SUM(id IN ("+ids[1]+", "+ids[3]+")), 0) FROM events", &left, &young)
			if err != nil || n != 2 || left != 2 || young != 2 {
				d.t.Errorf("%s: %d deleted, %d left, %d of them young: %v", kind, n, left, young, err)
			}
		}
	})
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
	if err != nil {
		t.Fatal(err)
	}
	conn, err := d.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, sql := range []string{"SET gtid_next = 'aaaaaaaa-0000-4000-8000-000000000001:7'", "BEGIN", "INSERT INTO events VALUES (1, NULL)"} {
		if _, err := conn.ExecContext(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	_, behind, err := r.Old(t.Context(), 0, 1)
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

// What cannot be deleted safely, or not by this user, is refused with the fix.
func TestOldRowsThatCannotBeDeleted(t *testing.T) {
	onEach(t, func(d *database) {
		user := strings.ReplaceAll(d.flavor+d.server.Addr(), ".", "")
		user = strings.ReplaceAll(user[len(user)-8:], ":", "") + "r"
		d.exec("CREATE USER " + user)
		for _, tt := range []struct{ table, grant, want string }{
			{"(id BIGINT, at DATETIME, KEY (id))", "", "create a unique index"},
			{"(id VARCHAR(50), at DATETIME, UNIQUE (id(3)))", "", "create a unique index"},
			{"(id BIGINT, at DATETIME, UNIQUE (id, at))", "", "create a unique index"},
			{"(id BIGINT PRIMARY KEY, at BIGINT)", "", "map created_at"},
			{"(id BIGINT PRIMARY KEY, at DATETIME) PARTITION BY HASH (id) PARTITIONS 2", "", "set partitions in place"},
			{"(id BIGINT PRIMARY KEY, at TIMESTAMP)", "SELECT", "run GRANT SELECT, DELETE ON `" + d.name + "`.`events` TO `" + user + "`@`%`"},
			{"(id BIGINT PRIMARY KEY, at TIMESTAMP)", "SELECT, DELETE", ""},
		} {
			d.exec("DROP TABLE IF EXISTS events")
			d.exec("CREATE TABLE events " + tt.table)
			as := "root"
			if tt.grant != "" {
				d.exec("GRANT " + tt.grant + " ON events TO " + user)
				as = user
			}
			_, err := d.rows(as, nothing)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(cdc.Explain(err), tt.want) {
				d.t.Errorf("%s: %v; want %q", tt.table, cdc.Explain(err), tt.want)
			}
		}
	})
}

func (d *database) scan(query string, dest ...any) {
	d.t.Helper()
	if err := d.db.QueryRowContext(d.t.Context(), query).Scan(dest...); err != nil {
		d.t.Fatalf("%s: %v", query, err)
	}
}

// relayedRows are rows whose position is saved.
type relayedRows struct{ *binlog.Rows }

func (relayedRows) Passed(context.Context, cdc.Position) (bool, error) { return true, nil }

// Rows that the database keeps stay, with the reason, and all others are deleted in the same pass. A lock is reported with its table,
// on MySQL with the process that holds it.
func TestOldRowsThatTheDatabaseKeeps(t *testing.T) {
	onEach(t, func(d *database) {
		process := map[string]string{"mysql": "process ID of user root holds a lock on table NAME.", "mariadb": "a transaction held a lock on table "}[d.flavor]
		d.exec("CREATE TABLE numbers (id BIGINT PRIMARY KEY AUTO_INCREMENT)")
		d.exec("INSERT INTO numbers VALUES " + strings.TrimSuffix(strings.Repeat("(NULL),", 300), ","))
		for title, tt := range map[string]struct {
			sql, hold []string
			left      int
			want      []string
		}{
			"NULL": {
				[]string{"UPDATE events SET id = NULL WHERE id IN (3, 70)"},
				nil, 2,
				[]string{"not deleted: 2, whose column id is NULL", "Fix: set it with UPDATE `NAME`.`events` SET `id` = ..."},
			},
			"foreign key": {
				[]string{"CREATE TABLE note (event BIGINT, FOREIGN KEY (event) REFERENCES events (id))", "INSERT INTO note VALUES (3), (70)"},
				nil, 2,
				[]string{"not deleted: 2, among them that of event 3: ", "`NAME`.`note`, CONSTRAINT", "remove that foreign key"},
			},
			"trigger": {
				[]string{"CREATE TRIGGER keeper BEFORE DELETE ON events FOR EACH ROW IF OLD.id > 290 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'wanted'; END IF"},
				nil, 10,
				[]string{"not deleted: 10, among them that of event 291: ", `a trigger ON DELETE says "wanted"`, "Fix: change the trigger"},
			},
			"trigger with a number of its own": {
				[]string{"CREATE TRIGGER keeper BEFORE DELETE ON events FOR EACH ROW IF OLD.id > 290 THEN SIGNAL SQLSTATE '45001' SET MESSAGE_TEXT = 'wanted', MYSQL_ERRNO = 9999; END IF"},
				nil, 10,
				[]string{"not deleted: 10, among them that of event 291: ", `a trigger ON DELETE says "wanted"`},
			},
			"locked": {
				nil,
				[]string{"SELECT * FROM events WHERE id = 1 FOR UPDATE"},
				300,
				[]string{"table NAME.events: delete old rows: a lock is not free: ", process, "Fix: end "},
			},
			"another table that is locked": {
				[]string{"CREATE TABLE note (event BIGINT, FOREIGN KEY (event) REFERENCES events (id))", "INSERT INTO note VALUES (1)"},
				[]string{"SELECT * FROM note FOR UPDATE"},
				300,
				[]string{"a lock is not free: ", process, "NAME.note", "Fix: end "},
			},
		} {
			for _, sql := range append([]string{
				"DROP TABLE IF EXISTS note", "DROP TABLE IF EXISTS events", "CREATE TABLE events (id BIGINT UNIQUE, at DATETIME(6))",
				"INSERT INTO events SELECT id, UTC_TIMESTAMP(6) - INTERVAL 40 DAY FROM numbers",
			}, tt.sql...) {
				d.exec(sql)
			}
			conn, err := d.db.Conn(d.t.Context())
			if err != nil {
				d.t.Fatal(err)
			}
			var id string
			if err := conn.QueryRowContext(d.t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
				d.t.Fatal(err)
			}
			for _, sql := range append([]string{"BEGIN"}, tt.hold...) {
				if _, err := conn.ExecContext(d.t.Context(), sql); err != nil {
					d.t.Fatalf("%s: %v", sql, err)
				}
			}
			r, err := d.rows("root", nothing)
			if err != nil {
				d.t.Fatalf("%s: %v", title, err)
			}
			open := func(context.Context) ([]retention.Rows, func(), error) {
				return []retention.Rows{relayedRows{r}}, func() {}, nil
			}
			err = retention.NewPurger(retention.PurgeOptions{OlderThan: 30 * 24 * time.Hour, Batch: 5}, open, retention.Unguarded, slog.New(slog.DiscardHandler), prometheus.NewRegistry()).Purge(d.t.Context())
			if _, err := conn.ExecContext(d.t.Context(), "ROLLBACK"); err != nil {
				d.t.Fatal(err)
			}
			_ = conn.Close()
			said := "nothing"
			if err != nil {
				said = cdc.Explain(err)
			}
			for _, want := range tt.want {
				if want = strings.NewReplacer("NAME", d.name, "ID", id).Replace(want); !strings.Contains(said, want) {
					d.t.Errorf("%s: it says %s\nwant %q", title, said, want)
				}
			}
			var left int
			if d.scan("SELECT COUNT(*) FROM events", &left); left != tt.left {
				d.t.Errorf("%s: %d rows are left, want %d", title, left, tt.left)
			}
		}
	})
}
