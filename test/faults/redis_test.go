package faults

import (
	"context"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// Row 26: Redis loses the position while the relay runs. It is written again, although nothing is appended, and nothing
// is published twice.
func TestRedisLosesItsData(t *testing.T) {
	for name, source := range sources() {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, source.open(t), cdctest.InRedis, nil)
			r.Start()
			r.AwaitSaved(r.Append("k", 10))
			old, err := shared.redis.Do(t.Context(), "GET", r.RedisKey())
			r.Must(err)
			r.AwaitSaved(r.Append("k", 10))

			writtenAgain := func(ctx context.Context) (bool, error) {
				now, err := shared.redis.Do(ctx, "GETRANGE", r.RedisKey(), "0", "-1") // "" where there is none
				return now != "" && now != old, err
			}
			r.Must(r.FlushRedis().Do(t.Context(), r.Random))
			r.Await("the position to be written again after a flush", writtenAgain)
			_, err = shared.redis.Do(t.Context(), "SET", r.RedisKey(), old) // as a failover to a replica that lagged
			r.Must(err)
			r.Await("the position to be written again after a rollback", writtenAgain)

			r.Must(r.FlushRedis().Do(t.Context(), r.Random))
			r.Must(r.Relay.Signal(syscall.SIGTERM)) // a stop saves once more
			r.AwaitExit(time.Minute, 0)
			r.Start()
			r.AwaitSaved(r.Append("k", 10))
			if report := r.Verify(); report.Duplicates != 0 {
				t.Errorf("%d events were repeated", report.Duplicates)
			}
		})
	}
}

// Row 26: Redis cannot be written. Publishing goes on, and nothing is confirmed to the source, so that a kill at
// that time causes duplicates only.
func TestRedisUnavailable(t *testing.T) {
	for name, tt := range map[string]struct {
		away func(r *cdctest.Rig, way *testenv.ProxyServer, redis *testenv.RedisServer) error
		back func(r *cdctest.Rig, way *testenv.ProxyServer, redis *testenv.RedisServer) error
	}{
		"unreachable": {
			func(_ *cdctest.Rig, way *testenv.ProxyServer, _ *testenv.RedisServer) error { way.Cut(); return nil },
			func(_ *cdctest.Rig, way *testenv.ProxyServer, _ *testenv.RedisServer) error { return way.Restore() },
		},
		"silent": {
			func(_ *cdctest.Rig, way *testenv.ProxyServer, _ *testenv.RedisServer) error {
				return way.Swallow(testenv.Requests)
			},
			func(r *cdctest.Rig, way *testenv.ProxyServer, _ *testenv.RedisServer) error {
				way.Heal(r.Within(time.Minute))
				return nil
			},
		},
		"read-only": {
			func(r *cdctest.Rig, _ *testenv.ProxyServer, redis *testenv.RedisServer) error {
				_, err := redis.Do(r.Within(time.Minute), "REPLICAOF", "127.0.0.1", "1")
				return err
			},
			func(r *cdctest.Rig, _ *testenv.ProxyServer, redis *testenv.RedisServer) error {
				_, err := redis.Do(r.Within(time.Minute), "REPLICAOF", "NO", "ONE")
				return err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := newPostgres(t)
			way := testenv.Proxy(t, shared.redis.Addr())
			r := newRig(t, db, cdctest.InRedis, func(o *cdctest.RigOptions) {
				o.Settings = map[string]any{"checkpoint.redis.addrs": []string{way.Addr()}}
			})
			r.Start()
			r.AwaitSaved(r.Append("before", 10))
			r.Must(tt.away(r, way, shared.redis))
			t.Cleanup(func() { _ = tt.back(r, way, shared.redis) })
			stands := current(r, db)
			// More than the window: it must not wait for saves that fail.
			for range 3 {
				r.AwaitEvents(r.Append("meanwhile", r.Window))
			}
			if moved := confirmed(t.Context(), r, db); moved > stands {
				t.Errorf("the slot was confirmed up to %s, what was published behind %s is not saved", moved, stands)
			}
			r.Relay.Kill()
			r.FaultUnbounded("SIGKILL while Redis was away")
			r.Must(tt.back(r, way, shared.redis))
			r.Start()
			r.AwaitSaved(r.Append("after", 10))
			if report := r.Verify(); report.Duplicates != 3*r.Window {
				t.Errorf("%d events were repeated, want the %d that were not saved", report.Duplicates, 3*r.Window)
			}
		})
	}
}

// Row 26: a relay starts with a Redis that lost the position: it goes on from the slot, or
// stops where the source keeps no position.
func TestStartWithFlushedRedis(t *testing.T) {
	for name, source := range sources() {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, source.open(t), cdctest.InRedis, nil)
			r.Start()
			r.Load(cdctest.Workload{})
			r.AwaitProgress(1000)
			r.Kill()
			r.FaultUnbounded("SIGKILL and flush")
			r.Must(r.FlushRedis().Do(t.Context(), r.Random))
			if !source.can(cdctest.SlotOnly) {
				r.Must(r.Relay.Start(t.Context()))
				says(t, r.AwaitExit(30*time.Second, 5), "cdc-relay setup", "--start-from")
				return
			}
			r.Start()
			r.AwaitProgress(500)
			r.Verify()
		})
	}
}

// Row 26: a relay starts with a Redis that was rolled back behind the slot. That may as well be a slot that
// somebody moved: it stops, and continues with position.conflict: slot.
func TestStartWithRolledBackRedis(t *testing.T) {
	db := newPostgres(t)
	r := newRig(t, db, cdctest.InRedis, nil)
	r.Start()
	r.AwaitSaved(r.Append("k", 10))
	old, err := shared.redis.Do(t.Context(), "GET", r.RedisKey())
	r.Must(err)
	before := current(r, db)
	r.Append("k", 10)
	r.Await("the slot to be confirmed", func(ctx context.Context) (bool, error) { return confirmed(ctx, r, db) > before, nil })
	r.Kill()
	_, err = shared.redis.Do(t.Context(), "SET", r.RedisKey(), old)
	r.Must(err)
	r.Append("k", 10)
	r.Must(r.Relay.Start(t.Context()))
	says(t, r.AwaitExit(30*time.Second, 5), "ahead of the checkpoint", "position.conflict: slot")
	r.Reconfigure("position.conflict", "slot")
	r.Start()
	r.AwaitSaved(r.Append("k", 10))
	if report := r.Verify(); report.Duplicates != 0 {
		t.Errorf("%d events were repeated", report.Duplicates)
	}
}

// Row 26 and row 5: a clean stop waits for Redis to come back, within its time, and saves.
func TestSigtermWhileRedisIsUnavailable(t *testing.T) {
	t.Parallel()
	for name, source := range sources() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			way := testenv.Proxy(t, shared.redis.Addr())
			r := newRig(t, source.open(t), cdctest.InRedis, func(o *cdctest.RigOptions) {
				o.Settings = map[string]any{"checkpoint.redis.addrs": []string{way.Addr()}}
			})
			r.Start()
			r.AwaitSaved(r.Append("before", 10))
			way.Cut()
			r.AwaitEvents(r.Append("meanwhile", 100))
			r.Must(r.Relay.AwaitLog(r.Within(time.Minute), "position not saved"))
			r.Must(r.Relay.Signal(syscall.SIGTERM))
			r.Must(r.Relay.AwaitLog(r.Within(time.Minute), "stopping"))
			r.Hold(500 * time.Millisecond)
			r.Must(way.Restore())
			r.AwaitExit(time.Minute, 0)
			r.Start()
			r.AwaitSaved(r.Append("after", 10))
			if report := r.Verify(); report.Duplicates != 0 {
				t.Errorf("%d events were repeated", report.Duplicates)
			}
		})
	}
}

// A relay whose checkpoint refuses for good ends at once, also while nothing is appended: waiting would only let WAL or
// binlog pile up.
func TestRefusedCheckpoint(t *testing.T) {
	t.Parallel()
	for fault, tt := range map[string]struct {
		pattern, with string
		code          int
		says          string
	}{
		"newer":    {`"generation":"\d+"`, `"generation":"1000"`, 4, "another relay"},
		"foreign":  {`"database":"[^"]+"`, `"database":"other"`, 5, "another source"},
		"unusable": {`^.*$`, "spoilt", 5, "position reset"},
	} {
		for name, source := range sources() {
			t.Run(fault+"/"+name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, source.open(t), cdctest.InRedis, func(o *cdctest.RigOptions) {
					o.Settings = map[string]any{"shutdown_timeout": "10m"}
				})
				r.Start()
				r.AwaitSaved(r.Append("before", 10))
				stored, err := shared.redis.Do(t.Context(), "GET", r.RedisKey())
				r.Must(err)
				other := regexp.MustCompile(tt.pattern).ReplaceAllString(stored, tt.with)
				if other == stored {
					t.Fatalf("nothing to change in %s", stored)
				}
				_, err = shared.redis.Do(t.Context(), "SET", r.RedisKey(), other)
				r.Must(err)
				says(t, r.AwaitExit(30*time.Second, tt.code), tt.says)
				r.Fault(fault)
				if tt.code == 5 { // needs an administrator: here the old one is restored
					_, err = shared.redis.Do(t.Context(), "SET", r.RedisKey(), stored)
					r.Must(err)
				}
				r.Start()
				r.AwaitSaved(r.Append("after", 10))
				r.Verify()
			})
		}
	}
}
