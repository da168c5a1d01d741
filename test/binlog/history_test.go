package binlog

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/test/conformance"
)

// published runs transactions after one with an outbox row, and returns the checkpoint of a relay that has read them.
func (d *database) published(transactions ...[]string) cdc.Checkpoint {
	d.t.Helper()
	r := start(d.t, d.source(current()), none)
	d.fresh(insert(1))
	r.Expect(1)
	for _, statements := range transactions {
		d.fresh(statements...)
	}
	until(d.t, func() bool { return r.Progress().Position == d.parsed(cdc.Position(d.position())) })
	c := cdc.Checkpoint{Source: cdc.Source{SystemID: d.flavor, Database: d.name}, Progress: r.Progress()}
	r.MustStop()
	return c
}

func until(t *testing.T, done func() bool) {
	t.Helper()
	cdctest.Eventually(t, patience, "what the test expects", done)
}

// endDumps ends the threads that send the binlog: the server takes long to notice that a relay has left.
func (d *database) endDumps() {
	d.t.Helper()
	ids, err := d.server.Column(d.t.Context(), "SELECT id AS reader FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'", "reader")
	testenv.Must(d.t, err)
	for _, id := range ids {
		_, _ = d.db.ExecContext(d.t.Context(), "KILL "+id) // it may have ended
	}
	d.eventually(noDump)
}

// empty begins the binlog anew: the server gives the same GTIDs again, as one does that was restored from a backup.
func (d *database) empty() {
	d.t.Helper()
	d.endDumps()
	d.exec(map[string]string{"mysql": "RESET BINARY LOGS AND GTIDS", "mariadb": "RESET MASTER"}[d.flavor])
}

// tables creates the outbox and a table beside it.
func (d *database) tables() {
	d.t.Helper()
	d.simple()
	d.exec("CREATE TABLE other (n INT)")
}

// A server that was restored from a backup gives its GTIDs again. Once it has passed the position, a start stops all the same,
// whatever stood before the position, and publishes nothing. It goes on from a position that was set for it.
//
//covers:binlogs 13 rows both
func TestRestoredServerThatPassedThePosition(t *testing.T) {
	for name, last := range map[string][]string{
		"outbox":     {insert(2)},
		"other":      {"INSERT INTO other VALUES (1)"},
		"update":     {"INSERT INTO other VALUES (1)", "UPDATE other SET n = 2"},
		"delete":     {"INSERT INTO other VALUES (1)", "DELETE FROM other"},
		"ddl":        {"ALTER TABLE other ADD m INT"},
		"savepoint":  {"BEGIN", insert(2), "SAVEPOINT s", insert(3), "ROLLBACK TO s", "COMMIT"},
		"two_times":  {"BEGIN", insert(2), "SET timestamp = UNIX_TIMESTAMP() + 9", insert(3), "COMMIT"},
		"compressed": {"SET @@SESSION.binlog_transaction_compression = ON", insert(2)},
		"tagged":     {"SET gtid_next = 'AUTOMATIC:blue'", insert(2)},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(d *database) {
				t, last := d.t, last
				if d.flavor != "mysql" && (name == "compressed" || name == "tagged") {
					last = []string{insert(2)}
				}
				d.empty()
				d.tables()
				c := d.published(last)
				d.empty()
				for n := range 20 {
					d.fresh("SET timestamp = UNIX_TIMESTAMP() + 60", "SET @@SESSION."+map[string]string{"mysql": "gtid_next = 'AUTOMATIC'", "mariadb": "gtid_domain_id = 0"}[d.flavor], insert(100+n))
					if name == "tagged" && d.flavor == "mysql" {
						d.fresh("SET gtid_next = 'AUTOMATIC:blue'", insert(200+n))
					}
				}
				_, _, err := d.source(binlog.Options{}).Acquire(t.Context(), conformance.From(c))
				if cdc.ReasonOf(err) != "other_history" {
					t.Fatalf("with %+v the start ends with %v", c.Progress, err)
				}
				c.Progress.Commit = ""
				r := start(t, d.source(binlog.Options{}), conformance.From(c))
				d.fresh(insert(1000))
				r.Await(1)
				until(t, func() bool { return slices.Contains(r.Numbers(), 1000) })
			})
		})
	}
}

// What happens to a server in its one history does not stop a start: the last transaction is still there, or does not tell.
//
//covers:binlogs 13 rows both
func TestServerOfTheSameHistory(t *testing.T) {
	for name, meanwhile := range map[string]func(d *database, c *cdc.Checkpoint){
		"nothing":       func(*database, *cdc.Checkpoint) {},
		"no stamp":      func(_ *database, c *cdc.Checkpoint) { c.Progress.Commit = "" },
		"no such stamp": func(_ *database, c *cdc.Checkpoint) { c.Progress.Commit = "x@1" },
		"other transactions": func(d *database, _ *cdc.Checkpoint) {
			d.exec("INSERT INTO other VALUES (1)")
			d.exec("ALTER TABLE other ADD m INT")
		},
		"another table in its place": func(d *database, _ *cdc.Checkpoint) {
			d.exec("CREATE TABLE _outbox_new LIKE outbox")
			d.exec("RENAME TABLE outbox TO _outbox_old, _outbox_new TO outbox")
			d.exec("DROP TABLE _outbox_old")
		},
		"purged": func(d *database, _ *cdc.Checkpoint) {
			d.exec("FLUSH BINARY LOGS")
			files, err := d.server.Column(d.t.Context(), "SHOW BINARY LOGS", "Log_name")
			testenv.Must(d.t, err)
			d.exec("PURGE BINARY LOGS TO '" + files[len(files)-1] + "'")
		},
		"skipped by hand": func(d *database, c *cdc.Checkpoint) {
			if d.flavor != "mysql" {
				return // MariaDB logs no empty transactions
			}
			d.empty()
			var id string
			d.scan("SELECT @@server_uuid", &id)
			for n := 1; d.parsed(cdc.Position(d.position())) != c.Progress.Position; n++ {
				d.fresh(fmt.Sprintf("SET gtid_next = '%s:%d'", id, n), "BEGIN", "COMMIT")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(d *database) {
				t := d.t
				d.empty()
				d.tables()
				c := d.published([]string{insert(2)})
				if c.Progress.Commit == "" {
					t.Fatal("the checkpoint tells nothing of the last transaction")
				}
				meanwhile(d, &c)
				r := start(t, d.source(binlog.Options{}), conformance.From(c))
				d.fresh(insert(3))
				r.Expect(3)
			})
		})
	}
}
