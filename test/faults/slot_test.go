package faults

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// Tests of PostgreSQL's slot.

// SIGKILL after the save and before the status update to PostgreSQL: nothing is repeated.
//
//covers:postgres 4 events both
func TestKillBetweenCheckpointAndConfirm(t *testing.T) {
	t.Parallel()
	for checkpoint, delivery := range map[cdctest.Checkpoint]cdctest.Delivery{cdctest.InRedis: cdctest.AtLeastOnce, cdctest.InFile: cdctest.ExactlyOnce} {
		t.Run(string(checkpoint), func(t *testing.T) {
			t.Parallel()
			db := newPostgres(t)
			db.ThroughProxy(t)
			r := newRig(t, db, checkpoint, func(o *cdctest.RigOptions) {
				o.Delivery, o.Settings = delivery, map[string]any{"source.postgres.wait_until_visible": false} // the question does not get through either
			})
			r.Start()
			r.AwaitSaved(r.Append("before", 10))
			db.Proxy.Swallow(testenv.Requests) // events arrive, status updates do not
			gap := r.Append("gap", 200)
			r.AwaitSaved(gap)
			position, _, err := r.Saved(t.Context())
			r.Must(err)
			if confirmed := confirmed(t.Context(), r, db); confirmed >= position {
				t.Fatalf("the slot is at %s, not before the checkpoint at %s: there is no gap to test", confirmed, position)
			}
			r.Kill()
			db.Proxy.Heal(t.Context())
			r.Append("after", 1) // directly after the checkpoint's position
			r.Start()
			once(t, r)
		})
	}
}

// confirmed returns the slot's confirmed position in the checkpoint's form.
func confirmed(ctx context.Context, r *cdctest.Rig, db *cdctest.Postgres) string {
	var position string
	r.Must(db.Query(ctx, []any{&position}, `SELECT lpad(upper(to_hex((confirmed_flush_lsn - '0/0')::bigint)), 16, '0')
		FROM pg_replication_slots WHERE slot_name = $1`, db.Name()))
	return position
}

// current returns the end of the server's WAL in the checkpoint's form.
func current(r *cdctest.Rig, db *cdctest.Postgres) string {
	var position string
	r.Must(db.Query(r.Within(time.Minute), []any{&position}, `SELECT lpad(upper(to_hex((pg_current_wal_insert_lsn() - '0/0')::bigint)), 16, '0')`))
	return position
}

// The slot of an idle outbox in a busy database advances, so that the server can remove WAL.
//
//covers:postgres 8 events both
func TestIdleOutboxInBusyDatabase(t *testing.T) {
	for checkpoint, delivery := range map[cdctest.Checkpoint]cdctest.Delivery{cdctest.InRedis: cdctest.AtLeastOnce, cdctest.SlotOnly: cdctest.ExactlyOnce} {
		t.Run(string(checkpoint), func(t *testing.T) {
			db := newPostgres(t)
			r := newRig(t, db, checkpoint, func(o *cdctest.RigOptions) { o.Delivery = delivery })
			r.Start()
			r.AwaitEvents(r.Append("before", 1))
			busy(t.Context(), r, db, 64)
			const most = 16 << 20
			r.Await("the server to keep less WAL", func(ctx context.Context) (bool, error) {
				var kept int64
				// A checkpoint logs the running transactions, which lets restart_lsn advance.
				err := db.Exec(ctx, "CHECKPOINT")
				if err == nil {
					err = db.Query(ctx, []any{&kept}, `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), restart_lsn)::bigint
						FROM pg_replication_slots WHERE slot_name = $1`, db.Name())
				}
				return kept < most, err
			})
			r.AwaitEvents(r.Append("after", 1))
			r.Verify()
		})
	}
}

// busy makes the server write about that many MiB of WAL without outbox rows.
func busy(ctx context.Context, r *cdctest.Rig, db *cdctest.Postgres, mib int) {
	r.Must(db.Exec(ctx, "CREATE TABLE IF NOT EXISTS busy (x text)"))
	r.Must(db.Exec(ctx, "INSERT INTO busy SELECT repeat(md5(i::text), 32) FROM generate_series(1, $1) i", mib*1000))
}

// Keepalives do not move the slot past a transaction that Kafka has not acknowledged, and neither does the position that is
// saved again meanwhile.
//
//covers:postgres 9 events both
func TestKeepalivesWhileUnacknowledged(t *testing.T) {
	var rigs []*cdctest.Rig
	for checkpoint, delivery := range map[cdctest.Checkpoint]cdctest.Delivery{cdctest.InRedis: cdctest.AtLeastOnce, cdctest.SlotOnly: cdctest.ExactlyOnce} {
		tb := ofSource{t, string(checkpoint)}
		r := newRig(tb, newPostgres(tb), checkpoint, func(o *cdctest.RigOptions) { o.Delivery = delivery })
		r.Start()
		r.AwaitEvents(r.Append("before", 10))
		rigs = append(rigs, r)
	}
	resume := pauseKafka(t)
	for _, r := range rigs {
		db := postgresOf(r)
		r.Append("stuck", 100)
		stuck := current(r, db)
		awaitInFlight(r, 100)
		if r.Delivery == cdctest.AtLeastOnce {
			awaitSavedAgain(r)
		}
		for i := range 3 { // the server sends a keepalive for what it skips, and the relay answers
			busy(t.Context(), r, db, 1)
			awaitReply(r, db, current(r, db), i)
		}
		if confirmed := confirmed(t.Context(), r, db); confirmed >= stuck {
			r.Violation(cdctest.Lost, "the slot was confirmed up to %s, past unacknowledged events at %s", confirmed, stuck)
		}
		if n := strings.Count(r.Relay.Log(), "level=WARN"); n > 5 { // after 1, 10 and 60 seconds, and two more causes
			t.Errorf("%d lines about the outage, whose intervals are to grow", n)
		}
		r.Kill()
	}
	resume()
	for _, r := range rigs {
		r.Start()
	}
	verify(rigs)
}

// awaitSavedAgain waits until the position is saved although nothing has become durable, which happens every ten seconds.
func awaitSavedAgain(r *cdctest.Rig) {
	before, err := shared.redis.Do(r.Within(time.Minute), "GET", r.RedisKey())
	r.Must(err)
	r.Await("the position to be saved again", func(ctx context.Context) (bool, error) {
		now, err := shared.redis.Do(ctx, "GET", r.RedisKey())
		return now != before, err
	})
}

// awaitReply waits until the server has sent its WAL up to position and received a reply after that.
func awaitReply(r *cdctest.Rig, db *cdctest.Postgres, position string, round int) {
	sentBy := time.Time{}
	r.Await(fmt.Sprintf("a reply to keepalive %d", round), func(ctx context.Context) (bool, error) {
		var sent bool
		var now, reply time.Time
		err := db.Query(ctx, []any{&sent, &now, &reply}, `SELECT lpad(upper(to_hex((sent_lsn - '0/0')::bigint)), 16, '0') >= $2,
			clock_timestamp(), coalesce(reply_time, '-infinity'::timestamptz + interval '0')
			FROM pg_stat_replication JOIN pg_replication_slots ON active_pid = pid WHERE slot_name = $1`, db.Name(), position)
		if sent && sentBy.IsZero() {
			sentBy = now
		}
		return sent && reply.After(sentBy), err
	})
}
