package faults

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// fixedBy is a mistake, which begins and ends while the relay is stopped, and what the user does who follows the message.
type fixedBy struct {
	keep    cdctest.Checkpoint // where the position is; "": in Redis
	exactly bool               // the delivery is exactly-once
	// wrong gets a relay that has saved the position of some events and is stopped; code is that of the next start.
	wrong  func(t *testing.T, r *cdctest.Rig)
	code   int
	follow func(t *testing.T, r *cdctest.Rig, said string)
	// asked is a command that tells the fix; "": the relay does when it starts.
	asked string
}

func (f *fixedBy) run(t *testing.T, db cdctest.Database) {
	t.Helper()
	keep := f.keep
	if keep == "" {
		keep = cdctest.InRedis
	}
	r := newRig(t, db, keep, func(o *cdctest.RigOptions) {
		if f.exactly {
			o.Delivery = cdctest.ExactlyOnce
		}
	})
	r.Start()
	r.AwaitEvents(r.Append("before", 10))
	sigterm(r)
	f.wrong(t, r)
	if f.asked == "" {
		f.follow(t, r, refuses(t, r, f.code))
	} else {
		out, err := r.Relay.Command(t.Context(), strings.Fields(f.asked)...)
		t.Log(out)
		if (err != nil) != (f.code != 0) {
			t.Errorf("%s: %v", f.asked, err)
		}
		f.follow(t, r, out)
	}
	r.Start()
	r.AwaitEvents(r.Append("later", 10))
	r.Verify()
}

// Each fix that moves the position, the slot or the checkpoint is followed as it is printed: nothing is lost, and nothing repeated
// beyond the bound.
//
//covers:postgres 12 13 26 exit events
func TestFixesOfPositions(t *testing.T) {
	t.Parallel()
	command := func(start string, fill ...string) func(*testing.T, *cdctest.Rig, string) {
		return func(t *testing.T, r *cdctest.Rig, said string) {
			t.Helper()
			follow(t, r, said, start, fill...)
		}
	}
	anotherKey := func(advice string) func(*testing.T, *cdctest.Rig, string) {
		return func(t *testing.T, r *cdctest.Rig, said string) {
			t.Helper()
			if !strings.Contains(said, advice) {
				t.Errorf("it does not say so")
			}
			r.Reconfigure("checkpoint.redis.key", r.RedisKey()+"2")
		}
	}
	rolledBack := func(t *testing.T, r *cdctest.Rig) {
		t.Helper()
		old := inRedis(r, "GET")
		r.Start()
		r.AwaitSaved(r.Append("since", 10))
		sigterm(r)
		inRedis(r, "SET", old)
	}
	began := time.Now().UTC().Add(-time.Second).Format(time.RFC3339)
	since := command("repair", "TIME", began)
	renameSlot := func(t *testing.T, r *cdctest.Rig) {
		t.Helper()
		t.Cleanup(func() { _, _ = r.Relay.Command(context.WithoutCancel(t.Context()), "teardown", "--yes") })
		r.Reconfigure("source.postgres.slot", r.DB.Name()+"_2")
	}
	anotherSlot := func(t *testing.T, r *cdctest.Rig) {
		t.Helper()
		renameSlot(t, r)
		_, err := r.Relay.Command(t.Context(), "setup", "--skip-existing")
		r.Must(err)
		r.Append("for the new slot", 10)
	}
	// restored is a database that was restored without its slot, and set up again after the application had gone on.
	restored := func(pattern, with string) func(*testing.T, *cdctest.Rig) {
		return func(t *testing.T, r *cdctest.Rig) {
			t.Helper()
			r.Append("unsent", 10)
			r.Must(r.DB.LoseLog(t.Context()))
			_, err := r.Relay.Command(t.Context(), "setup", "--skip-existing")
			r.Must(err)
			stored(t, r, `"position":"[^"]*"`, `"position":"`+current(r, postgresOf(r))+`"`)
			stored(t, r, pattern, with)
		}
	}
	noSlot := func(t *testing.T, r *cdctest.Rig) { r.Must(r.DB.LoseLog(t.Context())) }
	// created follows setup where the rows that are there are published, which only the user knows.
	created := func(t *testing.T, r *cdctest.Rig, said string) {
		t.Helper()
		out, err := try(t, r, said, "setup")
		if err == nil {
			t.Error("setup has skipped rows")
		}
		follow(t, r, out, "setup --skip-existing")
	}
	unusable := func(t *testing.T, r *cdctest.Rig) { stored(t, r, `^.*$`, "garbage") }
	for name, f := range map[string]fixedBy{
		"no slot at the first run":      {keep: cdctest.SlotOnly, wrong: noSlot, code: 5, follow: created},
		"no slot, as check says":        {keep: cdctest.SlotOnly, wrong: noSlot, code: 3, follow: created, asked: "check"},
		"no slot, as position set says": {keep: cdctest.SlotOnly, wrong: noSlot, code: 5, follow: created, asked: "position set 0/1"},
		// A slot that is gone, or has another name in the configuration, is not made again behind rows that nobody has published.
		"setup beside unpublished rows": {
			keep:  cdctest.SlotOnly,
			wrong: func(t *testing.T, r *cdctest.Rig) { noSlot(t, r); r.Append("unsent", 10) },
			code:  5, follow: since, asked: "setup",
		},
		"repair without a checkpoint": {
			keep:  cdctest.SlotOnly,
			wrong: func(t *testing.T, r *cdctest.Rig) { noSlot(t, r); r.Append("unsent", 10) },
			code:  5,
			follow: func(t *testing.T, r *cdctest.Rig, said string) {
				var left int
				r.Must(postgresOf(r).Query(t.Context(), []any{&left}, "SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1", r.DB.Name()+"_repair"))
				if left > 0 {
					t.Error("a slot is left, which keeps WAL")
				}
				follow(t, r, said, "repair --since", "TIME", began)
			},
			asked: "repair",
		},
		"setup with another slot beside unpublished rows": {
			keep:  cdctest.SlotOnly,
			wrong: func(t *testing.T, r *cdctest.Rig) { r.Append("unsent", 10); renameSlot(t, r) },
			code:  5,
			follow: func(t *testing.T, r *cdctest.Rig, said string) {
				since(t, r, said)
				out, err := r.Relay.Command(t.Context(), "check")
				r.Must(err)
				sql, err := cdctest.Printed(out, "SELECT pg_drop_replication_slot('"+r.DB.Name()+"')")
				r.Must(err)
				r.Must(postgresOf(r).Exec(t.Context(), sql))
			},
			asked: "setup",
		},
		"unpublished rows before a slot that nobody has read": {
			keep: cdctest.SlotOnly,
			wrong: func(t *testing.T, r *cdctest.Rig) {
				r.Append("unsent", 10)
				noSlot(t, r)
				_, err := r.Relay.Command(t.Context(), "setup", "--skip-existing")
				r.Must(err)
			},
			follow: since, asked: "check",
		},
		"slot that was left": {
			wrong: func(t *testing.T, r *cdctest.Rig) {
				r.Must(postgresOf(r).Exec(t.Context(), "SELECT pg_create_logical_replication_slot($1, 'pgoutput')", r.DB.Name()+"_repair"))
				r.Append("unsent", 10)
			},
			follow: func(t *testing.T, r *cdctest.Rig, said string) {
				sql, err := cdctest.Printed(said, "SELECT pg_drop_replication_slot")
				r.Must(err)
				r.Must(postgresOf(r).Exec(t.Context(), sql))
				if out, err := r.Relay.Command(t.Context(), "check"); err != nil || strings.Contains(out, "_repair") {
					t.Errorf("%s: %v", out, err)
				}
			},
			asked: "check",
		},
		"position behind the slot": {wrong: func(*testing.T, *cdctest.Rig) {}, code: 5, follow: since, asked: "position set 0/1"},
		"slot of another plugin": {
			wrong: func(t *testing.T, r *cdctest.Rig) {
				r.Append("unsent", 10)
				r.Must(r.DB.LoseLog(t.Context()))
				r.Must(postgresOf(r).Exec(t.Context(), "SELECT pg_create_logical_replication_slot($1, 'test_decoding')", r.DB.Name()))
			},
			code: 2,
			follow: func(t *testing.T, r *cdctest.Rig, said string) {
				if !strings.Contains(said, "set source.postgres.slot to another name") {
					t.Errorf("it does not say so")
				}
				renameSlot(t, r)
				followAny(t, r, postgresOf(r), said, began)
			},
		},
		"name of another publication": {
			wrong: func(_ *testing.T, r *cdctest.Rig) {
				r.Append("unsent", 10)
				r.Reconfigure("source.postgres.publication", "another")
			},
			code: 2,
			follow: func(t *testing.T, r *cdctest.Rig, said string) {
				out, err := r.Relay.Command(t.Context(), "setup")
				if !strings.Contains(said, "correct source.postgres.publication") || err == nil || !strings.Contains(out, "correct source.postgres.publication") {
					t.Errorf("it does not say so: %s", out)
				}
				r.Reconfigure("source.postgres.publication", r.DB.Name())
			},
		},
		"end of the WAL before the position": {wrong: restored(`"position":"[^"]*"`, `"position":"FFFFFFFF00000000"`), code: 5, follow: since},
		"timeline of another history": {
			wrong: restored(`"timeline":1,("fingerprint":"[^"]*"),"server":"[^"]*"`, `"timeline":2,$1,"server":"1"`), code: 5, follow: since,
		},
		"commit of another history": {
			wrong: func(t *testing.T, r *cdctest.Rig) {
				r.Append("unsent", 10)
				at := current(r, postgresOf(r))
				stored(t, r, `"(position|commit)":"[^"]*"`, `"$1":"`+at+`"`)
				stored(t, r, `"txid":"[^"]*"`, `"txid":"7"`)
				r.Append("unsent", 1)
			},
			code: 5,
			follow: func(t *testing.T, r *cdctest.Rig, said string) {
				follow(t, r, said, "position reset")
				since(t, r, said)
			},
		},
		"checkpoint rolled back: reset": {wrong: rolledBack, code: 5, follow: command("position reset --skip-events")},
		"another slot: reset": {
			wrong: func(t *testing.T, r *cdctest.Rig) { r.Append("unsent", 10); anotherSlot(t, r) },
			code:  5,
			follow: func(t *testing.T, r *cdctest.Rig, said string) {
				followAny(t, r, postgresOf(r), said, began)
			},
		},
		"another slot: own key": {
			wrong:  anotherSlot,
			code:   5,
			follow: anotherKey("its own checkpoint key"),
		},
		"bad position": {
			wrong: func(t *testing.T, r *cdctest.Rig) {
				stored(t, r, `"position":"[^"]*"`, `"position":"nowhere"`)
			},
			code:   5,
			follow: command("position reset"),
		},
		"unusable": {wrong: unusable, code: 5, follow: command("position reset")},
		"unusable: another location": {
			wrong:  unusable,
			code:   5,
			follow: anotherKey("set checkpoint.redis.key to another location"),
		},
		"another relay's checkpoint, newer than the position in Kafka": {
			exactly: true,
			wrong: func(t *testing.T, r *cdctest.Rig) {
				stored(t, r, `"database":"[^"]*"`, `"database":"another"`)
				stored(t, r, `"generation":"\d*"`, `"generation":"9000000000000"`)
			},
			code: 5,
			follow: func(t *testing.T, r *cdctest.Rig, said string) {
				if out := follow(t, r, said, "position reset"); !strings.Contains(out, "continues from the position in Kafka") {
					t.Errorf("it does not say so")
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f.run(t, newPostgres(t))
		})
	}
}

// A publication that is not as it must be is corrected as the message says, and what was written meanwhile is published.
//
//covers:postgres 14 exit events
func TestFixesOfPublications(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"without inserts": "ALTER PUBLICATION % SET (publish = 'update')",
		"without table":   "ALTER PUBLICATION % DROP TABLE outbox",
		"filter":          "ALTER PUBLICATION % SET TABLE outbox WHERE (event_type = 'no such type')",
		"column list":     "ALTER PUBLICATION % SET TABLE outbox (event_id, created_at)",
		"partitions":      "ALTER PUBLICATION % SET (publish_via_partition_root = false)",
		"dropped":         "DROP PUBLICATION %",
		"recreated":       "DROP PUBLICATION %; CREATE PUBLICATION % FOR TABLE outbox WITH (publish = 'insert', publish_via_partition_root = true)",
	} {
		for _, keep := range []cdctest.Checkpoint{cdctest.SlotOnly, cdctest.InRedis} {
			t.Run(name+"/"+string(keep), func(t *testing.T) {
				t.Parallel()
				db := newPostgres(t)
				r := newRig(t, db, keep, nil)
				began := time.Now().UTC().Add(-time.Second).Format(time.RFC3339)
				r.Start()
				r.AwaitEvents(r.Append("before", 10))
				sigterm(r)
				for _, sql := range statements(change, db.Name()) {
					r.Must(db.Exec(t.Context(), sql))
					r.Append("unsent", 10)
				}
				for range 5 {
					r.Must(r.Relay.Start(t.Context()))
					if err := r.Relay.AwaitReady(r.Within(time.Minute)); err == nil && readsOn(r, db) {
						break
					}
					said := lastWords(r.Relay.Log())
					t.Log(said)
					followAny(t, r, db, said, began)
				}
				r.AwaitEvents(r.Append("later", 10))
				r.Verify()
			})
		}
	}
}

// readsOn waits until the relay has read what is in the WAL now, and reports whether it still runs.
func readsOn(r *cdctest.Rig, db *cdctest.Postgres) bool {
	end := current(r, db)
	r.Await("the relay to read the WAL, or to stop", func(ctx context.Context) (bool, error) {
		return !r.Relay.Running() || confirmed(ctx, r, db) >= end, nil
	})
	return r.Relay.Running()
}

// followAny does everything that a message says, in its order. What a command refuses says how to go on.
func followAny(t *testing.T, r *cdctest.Rig, db *cdctest.Postgres, said, began string) {
	t.Helper()
	_, fix, ok := strings.Cut(said, "Fix: ")
	if !ok {
		r.Must(errors.New("it names no fix: " + said))
	}
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(fix, -1) {
		text := m[1]
		if strings.HasPrefix(text, "ALTER ") || strings.HasPrefix(text, "SELECT ") {
			r.Must(db.Exec(t.Context(), text))
			continue
		}
		var fill []string
		if strings.Contains(text, "TIME") {
			fill = []string{"TIME", began}
		}
		out, err := try(t, r, fix, strings.TrimPrefix(text, "cdc-relay "), fill...)
		if err != nil {
			followAny(t, r, db, out, began)
			return
		}
		if strings.Contains(text, "repair") {
			return
		}
	}
}

func postgresOf(r *cdctest.Rig) *cdctest.Postgres {
	db, _ := r.DB.(*cdctest.Postgres)
	return db
}
