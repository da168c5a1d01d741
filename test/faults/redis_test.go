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

// Redis is flushed or rolled back while the relay runs: the position is saved again, also while the relay is idle, and
// nothing is repeated.
//
//covers:all 26 events
func TestRedisLosesItsData(t *testing.T) {
	onEach(t, func(t *testing.T, s source) {
		redis := testenv.Redis(t, testenv.RedisOptions{})
		r := newRig(t, s.open(t), cdctest.InRedis, func(o *cdctest.RigOptions) { o.Redis = redis })
		r.Start()
		r.AwaitSaved(r.Append("k", 10))
		old, err := redis.Do(t.Context(), "GET", r.RedisKey())
		r.Must(err)
		r.AwaitSaved(r.Append("k", 10))

		writtenAgain := func(ctx context.Context) (bool, error) {
			now, err := redis.Do(ctx, "GETRANGE", r.RedisKey(), "0", "-1") // "" if there is none
			return now != "" && now != old, err
		}
		r.Must(r.FlushRedis().Do(t.Context(), r.Random))
		r.Await("the position to be saved again after a flush", writtenAgain)
		_, err = redis.Do(t.Context(), "SET", r.RedisKey(), old) // as after a failover to a replica that lags
		r.Must(err)
		r.Await("the position to be saved again after a rollback", writtenAgain)

		r.Must(r.FlushRedis().Do(t.Context(), r.Random))
		r.Must(r.Relay.Signal(syscall.SIGTERM)) // a stop saves once more
		r.AwaitExit(time.Minute, 0)
		r.Start()
		r.AwaitSaved(r.Append("k", 10))
		once(t, r)
	})
}

// Redis is unreachable, silent or read-only: publishing continues, nothing is confirmed to PostgreSQL, and a kill repeats
// exactly what was not saved.
//
//covers:all 26 events
func TestRedisUnavailable(t *testing.T) {
	t.Parallel()
	replicaOf := func(r *cdctest.Rig, where ...any) error {
		_, err := r.Redis.Do(r.Within(time.Minute), append([]any{"REPLICAOF"}, where...)...)
		return err
	}
	for name, away := range map[string]func(r *cdctest.Rig, way *testenv.ProxyServer) error{
		"unreachable": func(_ *cdctest.Rig, way *testenv.ProxyServer) error { way.Cut(); return nil },
		"silent":      func(_ *cdctest.Rig, way *testenv.ProxyServer) error { way.Swallow(testenv.Requests); return nil },
		"read-only":   func(r *cdctest.Rig, _ *testenv.ProxyServer) error { return replicaOf(r, "127.0.0.1", "1") },
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, s source) {
				if name != "silent" && s.name != "postgres" {
					return // how Redis is away does not depend on the source
				}
				redis := testenv.Redis(t, testenv.RedisOptions{})
				way := testenv.Proxy(t, redis.Addr())
				db := s.open(t)
				r := newRig(t, db, cdctest.InRedis, func(o *cdctest.RigOptions) {
					o.Redis, o.Settings = redis, map[string]any{"checkpoint.redis.addrs": []string{way.Addr()}}
				})
				r.Start()
				r.AwaitSaved(r.Append("before", 10))
				r.Must(away(r, way))
				p, stores := db.(*cdctest.Postgres)
				stands := ""
				if stores {
					stands = current(r, p)
				}
				// More than the window: publishing must not wait for failing saves.
				for range 3 {
					r.AwaitEvents(r.Append("meanwhile", r.Window))
				}
				if stores {
					if moved := confirmed(t.Context(), r, p); moved > stands {
						t.Errorf("the slot was confirmed up to %s, only %s is saved", moved, stands)
					}
				}
				r.Relay.Kill()
				r.FaultUnbounded("SIGKILL while Redis was away")
				r.Must(way.Restore())
				way.Heal(r.Within(time.Minute))
				r.Must(replicaOf(r, "NO", "ONE"))
				r.Start()
				r.AwaitSaved(r.Append("after", 10))
				repeats(t, r, 3*r.Window)
			})
		})
	}
}

// Start with a flushed Redis: the relay continues from the slot, or exits with code 5 if the source stores no position.
// With exactly-once delivery it continues from the position in Kafka.
//
//covers:postgres 26 events both
//covers:binlogs 26 exit
//covers:binlogs 26 events exactly-once
func TestStartWithFlushedRedis(t *testing.T) {
	onEach(t, func(t *testing.T, s source) {
		redis := testenv.Redis(t, testenv.RedisOptions{})
		rigs := besides(t, s.open, cdctest.InRedis, func(o *cdctest.RigOptions) { o.Redis = redis })
		loaded(rigs)
		awaitProgress(rigs, 1000)
		for _, r := range rigs {
			r.Kill()
			r.FaultUnbounded("SIGKILL and flush")
		}
		rigs[0].Must(rigs[0].FlushRedis().Do(t.Context(), rigs[0].Random))
		for _, r := range rigs {
			if r.Delivery == cdctest.AtLeastOnce && !s.can(cdctest.SlotOnly) {
				r.Must(r.Relay.Start(t.Context()))
				says(t, r.AwaitExit(time.Minute, 5), "cdc-relay setup", "position set earliest")
				continue
			}
			r.Start()
			r.AwaitProgress(500)
			r.Verify()
		}
	})
}

// SIGTERM while Redis is unavailable: the relay waits for Redis, within shutdown_timeout, and saves.
//
//covers:all 26 5 events both
func TestSigtermWhileRedisIsUnavailable(t *testing.T) {
	inBothModes(t, func(t *testing.T, s source, delivery func(*cdctest.RigOptions)) {
		way := testenv.Proxy(t, shared.redis.Addr())
		r := newRig(t, s.open(t), cdctest.InRedis, func(o *cdctest.RigOptions) {
			delivery(o)
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
		once(t, r)
	})
}

// A relay whose checkpoint refuses saves permanently exits, also while it is idle.
//
//covers:all 26 13 exit events both
func TestRefusedCheckpoint(t *testing.T) {
	t.Parallel()
	const database, other = `"database":"[^"]+"`, `"database":"other"`
	for fault, tt := range map[string]struct {
		pattern, with string
		code          int
		says          string
		delivery      cdctest.Delivery
		postgres      bool // only there: what is refused for good does not depend on the source
	}{
		"newer":        {`"generation":"\d+"`, `"generation":"9000000000000000000"`, 4, "another relay", cdctest.AtLeastOnce, false},
		"foreign":      {database, other, 5, "another source", cdctest.AtLeastOnce, true},
		"foreign copy": {database, other, 5, "another source", cdctest.ExactlyOnce, false},
		"unusable":     {`^.*$`, "garbage", 5, "position reset", cdctest.AtLeastOnce, true},
	} {
		t.Run(fault, func(t *testing.T) {
			onEach(t, func(t *testing.T, s source) {
				if tt.postgres && s.name != "postgres" {
					return
				}
				r := newRig(t, s.open(t), cdctest.InRedis, func(o *cdctest.RigOptions) {
					o.Settings, o.Delivery = map[string]any{"shutdown_timeout": "10m"}, tt.delivery
				})
				r.Start()
				r.AwaitSaved(r.Append("before", 10))
				stored := inRedis(r, "GET")
				other := regexp.MustCompile(tt.pattern).ReplaceAllString(stored, tt.with)
				if other == stored {
					t.Fatalf("nothing to change in %s", stored)
				}
				stored = inRedis(r, "GETSET", other) // it may have been saved again
				says(t, r.AwaitExit(time.Minute, tt.code), tt.says)
				r.Fault(fault)
				if tt.code == 5 { // an administrator restores the old one
					inRedis(r, "SET", stored)
				}
				r.Start()
				r.AwaitSaved(r.Append("after", 10))
				r.Verify()
			})
		})
	}
}
