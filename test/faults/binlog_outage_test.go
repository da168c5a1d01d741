package faults

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// onBinlogs runs fn on a fresh database of MySQL and on one of MariaDB, at the same time.
func onBinlogs(t *testing.T, fn func(t *testing.T, db *cdctest.MySQL)) {
	t.Helper()
	for _, flavor := range binlogs() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			fn(t, newMySQL(t, flavor))
		})
	}
}

// onBinlogsInBothModes is onBinlogs with each kind of delivery.
func onBinlogsInBothModes(t *testing.T, fn func(t *testing.T, db *cdctest.MySQL, delivery func(*cdctest.RigOptions))) {
	t.Helper()
	for _, d := range deliveries() {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			onBinlogs(t, func(t *testing.T, db *cdctest.MySQL) {
				t.Helper()
				fn(t, db, func(o *cdctest.RigOptions) { o.Delivery = d })
			})
		})
	}
}

// Columns added, dropped or renamed under load are mapped by name.
//
//covers:binlogs 15 events
func TestAlteredTableInBinlog(t *testing.T) {
	t.Parallel()
	onBinlogs(t, func(t *testing.T, db *cdctest.MySQL) {
		t.Helper()
		r := newRig(t, db, cdctest.InFile, nil)
		r.Start()
		r.Load(cdctest.Workload{})
		for _, sql := range []string{
			"ALTER TABLE outbox ADD COLUMN region VARCHAR(20) DEFAULT 'eu'",
			"ALTER TABLE outbox ADD COLUMN price DECIMAL(10, 2) DEFAULT 1.5 AFTER event_type", // in the middle of the row
			"ALTER TABLE outbox DROP COLUMN schema_version",
			"ALTER TABLE outbox DROP COLUMN tenant_id",
			"ALTER TABLE outbox RENAME COLUMN schema_id TO schema_name",
			"ALTER TABLE outbox DROP COLUMN price",
		} {
			r.AwaitProgress(300)
			alter(r, db, sql)
		}
		r.AwaitProgress(300)
		r.Verify()
	})
}

// alter retries after a short lock timeout. ALTER waits for transactions that have written to the table, and new ones wait
// for ALTER; if one of the former waits for a row that one of the latter has locked, none can proceed.
func alter(r *cdctest.Rig, db *cdctest.MySQL, sql string) {
	r.Await(sql, func(ctx context.Context) (bool, error) {
		err := db.Server.Exec(ctx, db.Name(), "SET SESSION lock_wait_timeout = 1; "+sql)
		if code, ok := errors.AsType[*mysql.MySQLError](err); ok && code.Number == erLockWaitTimeout {
			return false, nil
		}
		return err == nil, err
	})
}

// erLockWaitTimeout is ER_LOCK_WAIT_TIMEOUT of both servers.
const erLockWaitTimeout = 1205

// A required column is renamed: the relay stops, and continues without a gap once the configuration has the new name.
//
//covers:binlogs 15 exit events both
func TestRenamedColumnInBinlog(t *testing.T) {
	t.Parallel()
	onBinlogsInBothModes(t, func(t *testing.T, db *cdctest.MySQL, delivery func(*cdctest.RigOptions)) {
		t.Helper()
		r := newRig(t, db, cdctest.InFile, delivery)
		r.Start()
		r.AwaitSaved(r.Append("k", 10))
		db.PayloadColumn = "body"
		r.Must(db.Exec(t.Context(), "ALTER TABLE outbox RENAME COLUMN payload TO body"))
		r.Must(db.InsertMany(t.Context(), "x", 10, 10))
		says(t, r.AwaitExit(time.Minute, 2), "payload")
		renamed(r)
		r.Start()
		once(t, r)
	})
}

// Redis is unreachable or silent: publishing continues, and a kill repeats exactly what was not saved.
//
//covers:binlogs 26 events
func TestRedisUnavailableOnBinlog(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(way *testenv.ProxyServer) error{
		"unreachable": func(way *testenv.ProxyServer) error { way.Cut(); return nil },
		"silent":      func(way *testenv.ProxyServer) error { return way.Swallow(testenv.Requests) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBinlogs(t, func(t *testing.T, db *cdctest.MySQL) {
				t.Helper()
				way := testenv.Proxy(t, shared.redis.Addr())
				r := newRig(t, db, cdctest.InRedis, func(o *cdctest.RigOptions) {
					o.Settings = map[string]any{"checkpoint.redis.addrs": []string{way.Addr()}}
				})
				r.Start()
				r.AwaitSaved(r.Append("before", 10))
				r.Must(away(way))
				// More than the window: publishing must not wait for failing saves.
				for range 3 {
					r.AwaitEvents(r.Append("meanwhile", r.Window))
				}
				r.Relay.Kill()
				r.FaultUnbounded("SIGKILL while Redis was away")
				r.Must(way.Restore())
				way.Heal(r.Within(time.Minute))
				r.Start()
				r.AwaitSaved(r.Append("after", 10))
				repeats(t, r, 3*r.Window)
			})
		})
	}
}

// Start with a Redis that was rolled back: the checkpoint is the only copy of the position, so events published since are
// repeated; none is lost.
//
//covers:binlogs 26 events
func TestBinlogWithRolledBackRedis(t *testing.T) {
	t.Parallel()
	onBinlogs(t, func(t *testing.T, db *cdctest.MySQL) {
		t.Helper()
		r := newRig(t, db, cdctest.InRedis, nil)
		r.Start()
		r.AwaitSaved(r.Append("k", 10))
		old, err := shared.redis.Do(t.Context(), "GET", r.RedisKey())
		r.Must(err)
		r.AwaitSaved(r.Append("k", 20))
		r.Must(r.Relay.Signal(syscall.SIGTERM))
		r.AwaitExit(time.Minute, 0)
		_, err = shared.redis.Do(t.Context(), "SET", r.RedisKey(), old)
		r.Must(err)
		r.FaultUnbounded("Redis rolled back")
		r.Append("k", 10)
		r.Start()
		r.AwaitSaved(r.Append("k", 10))
		repeats(t, r, 20)
	})
}

// The relay reconnects after its connections are cut under load, and one process publishes nothing twice.
//
//covers:binlogs 31 events both
func TestBinlogConnectionsCut(t *testing.T) {
	t.Parallel()
	onBinlogsInBothModes(t, func(t *testing.T, db *cdctest.MySQL, delivery func(*cdctest.RigOptions)) {
		t.Helper()
		db.Proxy = testenv.Proxy(t, db.Server.Addr())
		r := newRig(t, db, cdctest.InFile, delivery)
		r.Start()
		r.Load(cdctest.Workload{})
		for range 3 {
			r.AwaitProgress(500)
			db.Proxy.Cut()
			r.Delay(200 * time.Millisecond)
			r.Must(db.Proxy.Restore())
		}
		r.AwaitProgress(500)
		goesOnOnce(t, r)
	})
}

// goesOnOnce verifies that a single process has published everything exactly once.
func goesOnOnce(t *testing.T, r *cdctest.Rig) {
	t.Helper()
	once(t, r)
	if n := r.Relay.Starts(); n != 1 {
		t.Errorf("the relay was started %d times", n)
	}
}

// The relay is frozen until the server closes its connection; then it continues from its position.
//
//covers:binlogs 6 events
func TestResumeAfterFreezeOnBinlog(t *testing.T) {
	t.Parallel()
	onBinlogs(t, func(t *testing.T, db *cdctest.MySQL) {
		t.Helper()
		db.Proxy = testenv.Proxy(t, db.Server.Addr())
		r := newRig(t, db, cdctest.InFile, nil)
		r.Start()
		r.Load(cdctest.Workload{Pause: 20 * time.Millisecond})
		r.AwaitProgress(300)
		r.Must(r.Relay.Signal(syscall.SIGSTOP))
		r.Hold(2 * time.Second)
		db.Proxy.Cut()
		r.Must(db.Proxy.Restore())
		r.Must(r.Relay.Signal(syscall.SIGCONT))
		r.AwaitProgress(500)
		goesOnOnce(t, r)
	})
}
