package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// fixing is a relay on MySQL or MariaDB to which one thing after another happens while it is stopped.
type fixing struct {
	*cdctest.Rig

	t     *testing.T
	db    *cdctest.MySQL
	began string // before the first event
	odd   int    // rows of rowOf
}

func newFixing(t *testing.T, db *cdctest.MySQL, d cdctest.Delivery) *fixing {
	t.Helper()
	began := time.Now().UTC().Add(-time.Second).Format(time.RFC3339)
	r := newRig(t, db, cdctest.InRedis, func(o *cdctest.RigOptions) { o.Delivery = d })
	return &fixing{Rig: r, t: t, db: db, began: began}
}

// step stops the relay once it has saved its position, and starts it after something happened. It ends with the code, and goes on once
// the user has done what it says.
func (f *fixing) step(name string, code int, wrong func(), fixed func(said string)) {
	f.t.Helper()
	f.t.Log(name)
	if f.Relay.Running() {
		f.AwaitSaved(f.Append("k", 10))
		sigterm(f.Rig)
	}
	wrong()
	fixed(refuses(f.t, f.Rig, code))
	f.Start()
}

// repaired follows the repair that a message names.
func (f *fixing) repaired(said string) {
	f.t.Helper()
	f.Append("k", 10)
	follow(f.t, f.Rig, said, "repair --since", "TIME", f.began)
}

// anew follows a reset, and then the repair that a message or the next start names.
func (f *fixing) anew(said string) {
	f.t.Helper()
	follow(f.t, f.Rig, said, "position reset")
	if !strings.Contains(said, "cdc-relay repair") {
		said = refuses(f.t, f.Rig, 5)
	}
	f.repaired(said)
}

// refused returns what a command says that is refused.
func (f *fixing) refused(args ...string) string {
	f.t.Helper()
	out, err := f.Relay.Command(f.t.Context(), args...)
	if err == nil {
		f.t.Fatalf("%q was done: %s", args, out)
	}
	return out
}

// done verifies that nothing is lost.
func (f *fixing) done() *cdctest.Report {
	f.t.Helper()
	f.AwaitEvents(f.Append("k", 10))
	return f.Verify()
}

func (f *fixing) exec(sql string) {
	f.t.Helper()
	f.Must(f.db.Server.Exec(f.t.Context(), f.db.Name(), sql))
}

// row inserts an event.
func (f *fixing) row() string {
	f.odd++
	return fmt.Sprintf("INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, content_type, occurred_at, payload) VALUES "+
		"(X'%032x', 'Order', 'odd', 'OrderPlaced', 'text/plain', '2026-01-02 03:04:05.5', 'odd:%d:x')", f.odd, f.odd)
}

// reset drops the position, and returns what the command says.
func (f *fixing) reset() string {
	f.t.Helper()
	return follow(f.t, f.Rig, "`cdc-relay position reset`", "position reset")
}

// Each fix on MySQL and MariaDB that stores a position without publishing from the table loses and repeats nothing.
//
//covers:binlogs 26 28 events both
func TestFixesOfPositionsInBinlog(t *testing.T) {
	t.Parallel()
	eachDelivery(t, func(t *testing.T, d cdctest.Delivery) {
		onBinlogs(t, func(t *testing.T, db *cdctest.MySQL) {
			f := newFixing(t, db, d)
			f.step("no table", 2, func() { f.exec("DROP TABLE outbox") }, func(said string) { follow(t, f.Rig, said, "setup") })
			f.step("first run", 5, func() { f.reset() }, func(said string) {
				out, err := try(t, f.Rig, said, "setup")
				if err == nil {
					t.Error("setup has skipped rows")
				}
				follow(t, f.Rig, out, "setup --skip-existing")
			})
			var saved, out string
			f.step("position is known", 5, func() {
				var err error
				saved, _, err = f.Saved(t.Context())
				f.Must(err)
				out = f.reset()
				f.Append("k", 10)
			}, func(said string) {
				if d == cdctest.ExactlyOnce { // the reset says it too
					said = out
				}
				follow(t, f.Rig, said, "position set POSITION", "POSITION", saved)
			})
			if d == cdctest.AtLeastOnce {
				had := f.Config["checkpoint"]
				f.step("no checkpoint is configured", 2, func() { f.Reconfigure("checkpoint", nil) }, func(said string) {
					if !strings.Contains(said, "set checkpoint.redis, or checkpoint.file") {
						t.Error("it does not say so")
					}
					f.Append("k", 10)
					f.Reconfigure("checkpoint", had)
				})
			}
			if d == cdctest.ExactlyOnce {
				f.besideKafka()
			}
			if n := f.done().Duplicates; n > 0 {
				f.Violation(cdctest.Duplicates, "%d events were repeated", n)
			}
		})
	})
}

// Each fix on MySQL and MariaDB that publishes from the table loses nothing. The test is not parallel: a statement in the binlog stops
// every relay on the server.
//
//covers:binlogs 20 26 events both
func TestFixesThatRepairOnBinlogs(t *testing.T) {
	eachDelivery(t, func(t *testing.T, d cdctest.Delivery) {
		onBinlogs(t, func(t *testing.T, db *cdctest.MySQL) {
			f := newFixing(t, db, d)
			f.Start()
			past := func(said string) {
				f.Append("k", 10)
				follow(t, f.Rig, said, "repair")
				follow(t, f.Rig, said, "position set")
			}
			f.step("statement", 1, func() { f.exec("SET SESSION binlog_format = STATEMENT; " + f.row()) }, past)
			f.step("XA", 1, func() {
				f.exec(strings.ReplaceAll("XA START %; "+f.row()+"; XA END %; XA PREPARE %; XA COMMIT %", "%", "'"+db.Name()+"'"))
			}, past)
			var out string
			f.step("lost checkpoint", 5, func() { out = f.reset() }, func(said string) {
				if d == cdctest.ExactlyOnce { // the reset says it too
					said = out
				}
				f.repaired(said)
			})
			f.step("lost checkpoint: setup", 5, func() { f.reset(); f.Append("unsent", 10) }, func(string) { f.repaired(f.refused("setup")) })
			if d == cdctest.AtLeastOnce {
				f.checkpoints()
			}
			f.done()
		})
	})
}

// besideKafka are steps with a checkpoint that does not fit the position in Kafka.
func (f *fixing) besideKafka() {
	t := f.t
	t.Helper()
	another := func() { stored(t, f.Rig, `"database":"[^"]*"`, `"database":"another"`) }
	f.step("another relay's checkpoint", 5, another, func(said string) { follow(t, f.Rig, said, "position reset") })
	var saved string
	f.step("checkpoint of at-least-once delivery is lost", 5, func() {
		deliver(f.Rig, cdctest.AtLeastOnce)
		f.Start()
		f.AwaitSaved(f.Append("k", 10))
		sigterm(f.Rig)
		var err error
		saved, _, err = f.Saved(t.Context())
		f.Must(err)
		inRedis(f.Rig, "DEL")
		deliver(f.Rig, cdctest.ExactlyOnce)
	}, func(said string) { follow(t, f.Rig, said, "position set POSITION", "POSITION", saved) })
	f.step("own key", 5, another, func(said string) {
		if !strings.Contains(said, "give each relay its own checkpoint.redis.key") {
			t.Error("it does not say so")
		}
		f.Reconfigure("checkpoint.redis.key", f.RedisKey()+"2")
	})
}

// checkpoints are steps with a checkpoint that does not fit.
func (f *fixing) checkpoints() {
	t := f.t
	t.Helper()
	f.step("bad position", 5, func() { stored(t, f.Rig, `"position":"[^"]*"`, `"position":"nowhere"`) }, f.anew)
	f.step("unusable", 5, func() { stored(t, f.Rig, `^.*$`, "garbage") }, f.anew)
	f.step("fewer rows", 5, f.fewerRows, f.anew)
	f.step("other tables", 5, func() { f.fewerRows(); stored(t, f.Rig, `"tables":"[^"]*"`, `"tables":"gone"`) }, func(said string) {
		f.Repeated("position set")
		saved, _, err := f.Saved(t.Context())
		f.Must(err)
		follow(t, f.Rig, said, "position set POSITION", "POSITION", saved)
	})
	another := func() { stored(t, f.Rig, `"database":"[^"]*"`, `"database":"another"`) }
	f.step("database replaced", 5, another, f.anew)
	f.step("database replaced: repair", 5, another, func(string) { f.anew(f.refused("repair")) })
	f.step("lost checkpoint: repair", 5, func() { f.reset() }, func(string) { f.repaired(f.refused("repair")) })
	f.step("another ID", 5, func() {
		f.Reconfigure("source.mysql.id", "c")
	}, func(said string) {
		if !strings.Contains(said, "set source.mysql.id to what it was") {
			t.Error("it does not say so")
		}
		f.Reconfigure("source.mysql.id", f.DB.Name())
	})
	f.step("own checkpoint", 5, another, func(said string) {
		if !strings.Contains(said, "give this relay its own checkpoint") {
			t.Error("it does not say so")
		}
		f.Reconfigure("checkpoint.redis.key", f.RedisKey()+"2")
		f.repaired(refuses(t, f.Rig, 5))
	})
}

// fewerRows lets the checkpoint say that more rows of the last transaction were published than it has.
func (f *fixing) fewerRows() {
	f.t.Helper()
	before, _, err := f.Saved(f.t.Context())
	f.Must(err)
	f.Start()
	f.AwaitSaved(f.Append("k", 10))
	sigterm(f.Rig)
	text := inRedis(f.Rig, "GET")
	var c map[string]any
	f.Must(json.Unmarshal([]byte(text), &c))
	c["position"], c["commit"] = before, ""
	c["part"] = map[string]any{"txid": c["txid"], "rows": 1000, "tables": cdc.CountedTables([]string{f.db.Name() + ".outbox"})}
	changed, err := json.Marshal(c)
	f.Must(err)
	inRedis(f.Rig, "SET", string(changed))
}

// What is done about a binlog that cannot be read, or not from the position on, loses nothing.
//
//covers:binlogs 19 20 events both
func TestFixesOfBinlogs(t *testing.T) {
	t.Parallel()
	eachBinlog(t, func(t *testing.T, flavor string) {
		server := testenv.MySQL(t, testenv.MySQLOptions{Flavor: flavor})
		eachDelivery(t, func(t *testing.T, d cdctest.Delivery) {
			testenv.Must(t, server.Exec(t.Context(), "", map[string]string{
				testenv.MySQLFlavor: "RESET BINARY LOGS AND GTIDS", testenv.MariaDBFlavor: "RESET MASTER",
			}[flavor]))
			db, err := cdctest.NewMySQL(t.Context(), server, databaseName(t))
			testenv.Must(t, err)
			f := newFixing(t, db, d)
			f.Start()
			f.binlogs()
			f.done()
		})
	})
}

func (f *fixing) binlogs() {
	t := f.t
	t.Helper()
	flushed := func(said string) {
		sql, err := cdctest.Printed(said, "FLUSH BINARY LOGS")
		f.Must(err)
		f.Append("k", 10)
		f.exec(sql)
		f.anew(said)
	}
	f.step("beginning", 5, func() { f.reset(); f.Append("k", 10) }, func(said string) {
		f.Repeated("position set earliest")
		follow(t, f.Rig, said, "position set earliest")
	})
	f.step("purged", 5, func() { f.Append("k", 10); f.Must(f.DB.LoseLog(t.Context())) }, func(string) {
		before, _, err := f.Saved(t.Context())
		f.Must(err)
		said, err := f.Relay.Command(t.Context(), "position", "set", before)
		if err == nil {
			t.Fatalf("a position that is purged was set: %s", said)
		}
		f.repaired(said)
	})
	f.step("lost file", 1, f.loseFile, flushed)
	f.step("incident", 1, f.incident, func(said string) {
		if strings.Contains(said, "FLUSH BINARY LOGS") {
			flushed(said)
			return
		}
		follow(t, f.Rig, said, "repair")
		follow(t, f.Rig, said, "position set")
	})
	if f.db.Server.Flavor == testenv.MySQLFlavor {
		f.step("no GTIDs while stopped", 2, f.withoutGTIDs, func(said string) {
			f.gtids(said)
			f.repaired(said)
		})
		f.withoutGTIDs()
		said := lastWords(f.AwaitExit(time.Minute, 1).Log)
		t.Log(said)
		f.gtids(refuses(t, f.Rig, 2))
		flushed(said)
		f.Start()
	}
}

var setting = regexp.MustCompile("`(SET PERSIST [^`]+)`")

func (f *fixing) withoutGTIDs() {
	f.exec("SET GLOBAL gtid_mode = ON_PERMISSIVE; SET GLOBAL gtid_mode = OFF_PERMISSIVE")
	f.Append("k", 10)
}

// gtids runs the statements that a message names.
func (f *fixing) gtids(said string) {
	for _, m := range setting.FindAllStringSubmatch(said, -1) {
		f.exec(m[1])
	}
}

// loseFile loses a file of the binlog with events that were not read.
func (f *fixing) loseFile() {
	t := f.t
	t.Helper()
	f.exec("FLUSH BINARY LOGS")
	status := map[string]string{testenv.MySQLFlavor: "SHOW BINARY LOG STATUS", testenv.MariaDBFlavor: "SHOW MASTER STATUS"}[f.db.Server.Flavor]
	file, err := f.db.Server.Column(t.Context(), status, "File")
	f.Must(err)
	base, err := f.db.Server.Value(t.Context(), "SELECT @@log_bin_basename")
	f.Must(err)
	f.Append("k", 10)
	f.exec("FLUSH BINARY LOGS")
	f.Append("k", 10)
	f.Must(os.Remove(filepath.Join(filepath.Dir(base), file[0])))
}

// incident makes the server write an INCIDENT.
func (f *fixing) incident() {
	f.Append("k", 10)
	f.exec("CREATE TABLE plain (pad LONGBLOB) ENGINE = MyISAM; SET GLOBAL max_binlog_stmt_cache_size = 4096, GLOBAL binlog_stmt_cache_size = 4096")
	if err := f.db.Server.Exec(f.t.Context(), f.db.Name(), "INSERT INTO plain VALUES (REPEAT('x', 10000)), (REPEAT('x', 10000))"); err == nil {
		f.t.Fatal("the server could log a statement larger than its limit")
	}
	f.exec("SET GLOBAL max_binlog_stmt_cache_size = DEFAULT, GLOBAL binlog_stmt_cache_size = DEFAULT")
	f.Append("k", 10)
}
