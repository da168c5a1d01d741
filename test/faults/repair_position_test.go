package faults

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// Whatever is wrong with the position on PostgreSQL: the command that the relay's last line names publishes what is missing, and
// the relay goes on.
//
//covers:postgres 12 13 14 events both
func TestRepairOfPosition(t *testing.T) {
	for name, lose := range map[string]func(*testing.T, *cdctest.Rig, *cdctest.Postgres){
		"slot recreated":   recreated,
		"slot invalidated": invalidatedDown,
		"slot recreated while it runs": func(t *testing.T, r *cdctest.Rig, db *cdctest.Postgres) {
			r.Start()
			r.AwaitSaved(r.Append("before", 10))
			resume := pauseKafka(t)
			r.Append("stuck", 10)
			awaitInFlight(r, 10)
			r.Must(r.Relay.Signal(syscall.SIGSTOP)) // or it may look between the two steps, and find no slot
			r.Must(db.DropActiveSlot(r.Within(time.Minute), true))
			r.Must(r.Relay.Signal(syscall.SIGCONT))
			r.Must(r.Relay.AwaitLog(r.Within(time.Minute), "this relay confirmed only"))
			resume()
		},
		"altered while down": func(t *testing.T, r *cdctest.Rig, db *cdctest.Postgres) {
			r.Start()
			r.AwaitSaved(r.Append("before", 10))
			r.Kill()
			for _, sql := range statements("CREATE TABLE other (LIKE outbox INCLUDING ALL); ALTER PUBLICATION % ADD TABLE other", db.Name()) {
				r.Must(db.Exec(t.Context(), sql))
			}
			r.Start() // this is no such change
			r.AwaitSaved(r.Append("more", 10))
			r.Kill()
			r.Must(db.Exec(t.Context(), "ALTER PUBLICATION "+db.Name()+" DROP TABLE outbox"))
			r.Append("unsent", 10)
			r.Must(db.Exec(t.Context(), "ALTER PUBLICATION "+db.Name()+" ADD TABLE outbox"))
			r.Append("after", 10)
			r.Must(r.Relay.Start(t.Context()))
		},
		"altered while it runs": func(t *testing.T, r *cdctest.Rig, db *cdctest.Postgres) {
			r.Start()
			r.AwaitSaved(r.Append("before", 10))
			for _, sql := range statements("ALTER PUBLICATION % DROP TABLE outbox", db.Name()) {
				r.Must(db.Exec(t.Context(), sql))
			}
			r.Append("unsent", 10)
			r.Must(db.Exec(t.Context(), "ALTER PUBLICATION "+db.Name()+" ADD TABLE outbox"))
		},
		"altered and taken back": func(t *testing.T, r *cdctest.Rig, db *cdctest.Postgres) {
			r.Start()
			r.AwaitSaved(r.Append("before", 10))
			r.Must(db.Exec(t.Context(), "ALTER TABLE outbox RENAME TO x"))
			says(t, r.AwaitExit(time.Minute, 5), "while the relay was reading")
			r.Must(db.Exec(t.Context(), "ALTER TABLE x RENAME TO outbox"))
			r.Append("after", 10)
			r.Must(r.Relay.Start(t.Context()))
		},
		"publication recreated": func(t *testing.T, r *cdctest.Rig, db *cdctest.Postgres) {
			r.Start()
			r.AwaitSaved(r.Append("before", 10))
			r.Kill()
			for _, sql := range statements("DROP PUBLICATION %; CREATE PUBLICATION % FOR TABLE outbox WITH (publish = 'insert', publish_via_partition_root = true)", db.Name()) {
				r.Must(db.Exec(t.Context(), sql))
			}
			r.Append("unsent", 10)
			r.Must(r.DB.LoseLog(t.Context())) // as the fix says
			r.Must(r.Relay.Start(t.Context()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "slot invalidated" && name != "slot recreated while it runs" { // which limit the WAL of every slot, and pause Kafka
				t.Parallel()
			}
			eachDelivery(t, func(t *testing.T, d cdctest.Delivery) {
				db := newPostgres(t)
				r := newRig(t, db, cdctest.InRedis, func(o *cdctest.RigOptions) {
					o.Delivery = d
					o.Settings = map[string]any{"shutdown_timeout": "1s"}
				})
				lose(t, r, db)
				fixed(t, r, r.AwaitExit(time.Minute, 5))
				r.Start()
				r.AwaitEvents(r.Append("later", 10))
				r.Verify()
			})
		})
	}
}

// unless is err, unless it is expected.
func unless(expected bool, err error) error {
	if expected {
		return nil
	}
	return err
}

// The slot alone holds the position, and the publication is altered and taken back while the relay runs, or starts: every start stops,
// until the command that is named has published what is missing.
//
//covers:postgres 12 events
func TestAlteredWithTheSlotAlone(t *testing.T) {
	t.Parallel()
	for when, start := range map[string]func(*testing.T, *cdctest.Rig, *cdctest.Postgres) (started func()){
		"while the relay was reading":                 reading,
		"while the relay was starting or standing by": starting,
	} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			db := newPostgres(t)
			r := newRig(t, db, cdctest.SlotOnly, nil)
			started := start(t, r, db)
			r.Must(db.Exec(t.Context(), "SELECT pg_logical_emit_message(true, 'cdc-relay: publication altered, slot other', '0/1')"))
			began := time.Now().UTC().Add(-time.Minute).Format(time.RFC3339)
			r.Must(db.Exec(t.Context(), "ALTER PUBLICATION "+db.Name()+" DROP TABLE outbox"))
			r.Append("unsent", 10)
			r.Must(db.Exec(t.Context(), "ALTER PUBLICATION "+db.Name()+" ADD TABLE outbox"))
			says(t, r.AwaitExit(time.Minute, 5), when)
			started()
			r.Append("after", 10)
			refuses(t, r, 5)
			said := refuses(t, r, 5)
			follow(t, r, said, "repair --since", "TIME", began)
			r.Start()
			r.AwaitEvents(r.Append("later", 10))
			r.Verify()
		})
	}
}

func reading(t *testing.T, r *cdctest.Rig, db *cdctest.Postgres) (started func()) {
	t.Helper()
	r.Start()
	r.AwaitEvents(r.Append("before", 10))
	before := current(r, db)
	r.Await("these to be confirmed", func(ctx context.Context) (bool, error) { return confirmed(ctx, r, db) >= before, nil }) // or each start repeats them
	return func() {}
}

// starting waits for a relay that finds no broker, and has confirmed nothing.
func starting(t *testing.T, r *cdctest.Rig, _ *cdctest.Postgres) (started func()) {
	t.Helper()
	brokers := shared.kafka.Addrs(testenv.ListenerPlain)
	r.Reconfigure("kafka.brokers", []string{"127.0.0.1:1"})
	r.Must(r.Relay.Start(t.Context()))
	r.Must(r.Relay.AwaitLog(r.Within(time.Minute), "cannot publish, retrying"))
	return func() { r.Reconfigure("kafka.brokers", brokers) }
}
