package faults

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// binlogs returns the sources with a binlog.
func binlogs() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(sources())), func(name string) bool { return name == "postgres" })
}

// Connections are cut and the relay is killed within transactions of thousands of rows, compressed or not. Each transaction
// is published whole.
//
//covers:binlogs 18 events both
func TestConnectionCutMidTransaction(t *testing.T) {
	t.Parallel()
	eachBinlog(t, func(t *testing.T, flavor string) {
		for delivery, compressed := range map[cdctest.Delivery]bool{cdctest.AtLeastOnce: true, cdctest.ExactlyOnce: false} {
			t.Run(map[bool]string{false: "plain", true: "compressed"}[compressed], func(t *testing.T) {
				db := newMySQL(t, flavor)
				compress(t, db, compressed)
				db.ThroughProxy(t)
				r := newRig(t, db, cdctest.InFile, func(o *cdctest.RigOptions) { o.Delivery = delivery })
				r.Start()
				for i := range 6 {
					r.Must(db.InsertMany(r.Within(time.Minute), fmt.Sprintf("big%d-", i), 3000, 500))
					r.Largest(3000)
					r.Delay(30 * time.Millisecond)
					if i%2 == 0 {
						db.Proxy.Cut()
						r.Must(db.Proxy.Restore())
						continue
					}
					r.Kill()
					r.Start()
				}
				r.Verify()
			})
		}
	})
}

// compress turns the server's binlog compression on or off for the test.
func compress(t *testing.T, db *cdctest.MySQL, on bool) {
	t.Helper()
	variable := "binlog_transaction_compression"
	if db.Server.Flavor == testenv.MariaDBFlavor {
		variable = "log_bin_compress"
	}
	set := func(ctx context.Context, value string) {
		if err := db.Exec(ctx, "SET GLOBAL "+variable+" = "+value); err != nil {
			t.Error(err)
		}
	}
	if on {
		set(t.Context(), "ON")
		t.Cleanup(func() { set(context.WithoutCancel(t.Context()), "OFF") })
	}
}

// The binlog is repeatedly rotated and purged up to its last file while the relay reads it.
//
//covers:binlogs 19 events
func TestRotationAndPurge(t *testing.T) {
	onBinlogs(t, func(t *testing.T, db *cdctest.MySQL) {
		r := newRig(t, db, cdctest.InRedis, nil)
		r.Start()
		r.Load(cdctest.Workload{})
		for range 8 {
			r.AwaitProgress(200)
			r.Must(db.Server.Exec(t.Context(), "", "FLUSH BINARY LOGS"))
			r.AwaitProgress(200)
			logs, err := db.Server.Column(t.Context(), "SHOW BINARY LOGS", "Log_name")
			r.Must(err)
			r.Must(db.Server.Exec(t.Context(), "", "PURGE BINARY LOGS TO '"+logs[len(logs)-1]+"'"))
		}
		r.Verify()
		startedOnce(r)
	})
}

// A transaction that cannot be published stops the relay while Kafka has been away for long. The printed fix moves the position past it, and
// skips nothing that waits for Kafka.
//
//covers:binlogs 20 10 events both
func TestStopWhileKafkaIsAway(t *testing.T) {
	var rigs []*cdctest.Rig
	for _, flavor := range binlogs() {
		for _, d := range deliveries() {
			tb := ofSource{t, flavor + "-" + string(d)}
			rigs = append(rigs, newRig(tb, newMySQL(tb, flavor), cdctest.InFile, func(o *cdctest.RigOptions) {
				o.Delivery, o.Settings = d, map[string]any{"shutdown_timeout": "1s"}
			}))
		}
	}
	for _, r := range rigs {
		r.Start()
		r.AwaitSaved(r.Append("before", 10))
	}
	resume := pauseKafka(t)
	for _, r := range rigs {
		r.Append("waiting", 10)
		awaitInFlight(r, 10)
		db := r.DB.(*cdctest.MySQL)
		// As if Kafka had been away for longer than the overlap of repair.
		r.Must(db.Server.Exec(t.Context(), db.Name(), "SET sql_log_bin = 0; UPDATE outbox SET created_at = created_at - INTERVAL 20 MINUTE"))
		r.Must(db.Server.Exec(t.Context(), db.Name(), `XA START 'x'; INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, occurred_at)
			VALUES (UNHEX(REPLACE(UUID(), '-', '')), 'a', 'k', 't', UTC_TIMESTAMP(6)); XA END 'x'; XA PREPARE 'x'; XA ROLLBACK 'x'`))
	}
	exits := make([]cdctest.Exit, len(rigs))
	for i, r := range rigs {
		exits[i] = r.AwaitExit(time.Minute, 1)
	}
	resume()
	for i, r := range rigs {
		said := lastWords(exits[i].Log)
		t.Log(said)
		if strings.Contains(said, "Fix: start it again,") {
			said = refuses(t, r, 1)
		}
		follow(t, r, said, "repair")
		follow(t, r, said, "position set")
		r.Start()
		r.AwaitEvents(r.Append("after", 10))
		r.Verify()
	}
}

// The outbox has another name for a while, under which a row is written. The relay stops at each renaming; the repair that it names
// publishes the row, be it repeated or not, and the relay goes on behind both. Then another table with a row takes its place. The exchange at the end of an online schema change does not stop it.
//
//covers:binlogs 20 events both
func TestRenamedTableInBinlog(t *testing.T) {
	t.Parallel()
	eachBinlog(t, func(t *testing.T, flavor string) {
		for _, d := range deliveries() {
			t.Run(string(d), func(t *testing.T) {
				t.Parallel()
				db := newMySQL(t, flavor)
				r := newRig(t, db, cdctest.InRedis, func(o *cdctest.RigOptions) { o.Delivery = d })
				exec := func(sql string) { r.Must(db.Exec(r.Within(time.Minute), sql)) }
				insert := func(id, key string) {
					exec(fmt.Sprintf(`INSERT INTO x (event_id, aggregate_id, aggregate_type, event_type, content_type, occurred_at, payload)
						SELECT UNHEX(REPEAT('%s', 16)), '%[2]s', aggregate_type, event_type, content_type, occurred_at, '%[2]s:1:x' FROM x LIMIT 1`, id, key))
				}
				began := time.Now().UTC().Format(time.RFC3339)
				r.Start()
				exec("CREATE TABLE _outbox_gho LIKE outbox")
				r.AwaitSaved(r.Append("before", 10))
				exec("INSERT INTO _outbox_gho SELECT * FROM outbox")
				exec("RENAME TABLE outbox TO _outbox_del, _outbox_gho TO outbox")
				r.AwaitEvents(r.Append("changed", 10))
				away := "ALTER TABLE outbox RENAME TO x"
				if flavor != testenv.MySQLFlavor {
					away = "SET STATEMENT lock_wait_timeout = 100 FOR " + away
				}
				exec(away)
				insert("ab", "u0")
				exec("RENAME TABLE x TO outbox")
				r.Append("after", 10)
				exit := r.AwaitExit(time.Minute, 1)
				says(t, exit, "outbox is renamed to", "rename it back", "the relay stops there too, and then only the position is to be moved")
				follow(t, r, lastWords(exit.Log), "repair")
				follow(t, r, lastWords(exit.Log), "position set")
				said := refuses(t, r, 1) // it has its name again
				if !strings.Contains(said, "unless that was done after ") {
					t.Error("it does not say that one repair is enough")
				}
				if d == cdctest.ExactlyOnce {
					follow(t, r, said, "repair", "TIME", began)
				}
				follow(t, r, said, "position set")
				exec("CREATE TABLE x LIKE outbox")
				exec("INSERT INTO x SELECT * FROM outbox")
				insert("cd", "u1")
				exec("RENAME TABLE outbox TO replaced, x TO outbox")
				said = refuses(t, r, 1)
				follow(t, r, said, "repair", "TIME", began)
				follow(t, r, said, "position set")
				r.Start()
				r.AwaitEvents(r.Append("later", 10))
				r.Verify()
			})
		}
	})
}
