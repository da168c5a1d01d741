package faults

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// The slot is dropped, recreated or invalidated while the relay runs, which exits with code 5 and names the fix. TestRepairOfPosition and
// TestRepair have the cases of a relay that is stopped.
//
//covers:postgres 12 13 exit
func TestLostSlot(t *testing.T) {
	running := func(create bool) func(*testing.T, *cdctest.Rig, *cdctest.Postgres) {
		return func(_ *testing.T, r *cdctest.Rig, db *cdctest.Postgres) {
			r.Start()
			r.AwaitEvents(r.Append("before", 10))
			r.Must(db.DropActiveSlot(r.Within(time.Minute), create))
		}
	}
	for name, tt := range map[string]struct {
		lose func(*testing.T, *cdctest.Rig, *cdctest.Postgres)
		says []string
	}{
		"dropped":                    {running(false), []string{"does not exist", "`cdc-relay setup`", "`cdc-relay repair`"}},
		"recreated":                  {running(true), []string{"this relay confirmed only", "if consumers have them"}},
		"invalidated, Kafka is away": {invalidatedRunning, []string{"lost", "outbox table", "`cdc-relay repair`", "max_slot_wal_keep_size"}},
	} {
		t.Run(name, func(t *testing.T) {
			db := newPostgres(t)
			r := newRig(t, db, cdctest.SlotOnly, func(o *cdctest.RigOptions) {
				// In one case Kafka is away; in another the relay must not reconnect too soon.
				o.Settings = map[string]any{"shutdown_timeout": "1s", "retry.initial": "2s", "retry.max": "2s"}
			})
			tt.lose(t, r, db)
			exit := r.AwaitExit(time.Minute, 5)
			says(t, exit, tt.says...)
			if strings.Contains(lastWords(exit.Log), "if consumers have them, start the relay again") { // they have them
				r.Start()
				r.AwaitEvents(r.Append("later", 10))
				once(t, r)
			}
		})
	}
}

func recreated(t *testing.T, r *cdctest.Rig, db *cdctest.Postgres) {
	t.Helper()
	r.Start()
	r.AwaitSaved(r.Append("before", 10))
	r.Kill()
	r.Append("skipped", 10)
	r.Must(db.DropActiveSlot(r.Within(time.Minute), true))
	r.Must(r.Relay.Start(t.Context()))
}

func invalidatedDown(t *testing.T, r *cdctest.Rig, db *cdctest.Postgres) {
	t.Helper()
	r.Start()
	r.AwaitSaved(r.Append("before", 10))
	r.Kill()
	r.Append("skipped", 10)
	invalidate(t, r, db)
	r.Must(r.Relay.Start(t.Context()))
}

func invalidatedRunning(t *testing.T, r *cdctest.Rig, db *cdctest.Postgres) {
	t.Helper()
	r.Start()
	r.AwaitEvents(r.Append("before", 10))
	pauseKafka(t)
	r.Append("stuck", 10)
	awaitInFlight(r, 10)
	invalidate(t, r, db)
}

// invalidate makes the server remove WAL that the slot needs, and what other slots on it need: no test that calls it is parallel.
func invalidate(t *testing.T, r *cdctest.Rig, db *cdctest.Postgres) {
	t.Helper()
	keep := func(ctx context.Context, setting string) error {
		return db.Server.Alter(ctx, "max_slot_wal_keep_size = '"+setting+"'")
	}
	t.Cleanup(func() {
		if err := keep(context.WithoutCancel(t.Context()), "-1"); err != nil {
			t.Error(err)
		}
	})
	r.Must(keep(t.Context(), "1MB"))
	r.Await("the slot to be lost", func(ctx context.Context) (lost bool, err error) {
		busy(ctx, r, db, 20)
		if err := db.Exec(ctx, "CHECKPOINT"); err != nil {
			return false, err
		}
		err = db.Query(ctx, []any{&lost}, "SELECT wal_status = 'lost' FROM pg_replication_slots WHERE slot_name = $1", db.Name())
		return lost, err
	})
}

// A publication that is changed for a moment loses rows without an error. The relay notices it at its next check, stops, and
// has confirmed nothing received since the check before.
//
//covers:postgres 14 exit both
func TestChangedPublication(t *testing.T) {
	t.Parallel()
	const again = "ALTER PUBLICATION % DROP TABLE outbox; ALTER PUBLICATION % ADD TABLE outbox"
	for name, tt := range map[string]struct {
		change   string
		delivery cdctest.Delivery
	}{
		"dropped":                       {"DROP PUBLICATION %", cdctest.AtLeastOnce},
		"recreated":                     {"DROP PUBLICATION %; CREATE PUBLICATION % FOR TABLE outbox WITH (publish = 'insert', publish_via_partition_root = true)", cdctest.ExactlyOnce},
		"table removed":                 {"ALTER PUBLICATION % DROP TABLE outbox", cdctest.AtLeastOnce},
		"table removed and added again": {again, cdctest.AtLeastOnce},
		"the same, exactly-once":        {again, cdctest.ExactlyOnce},
		"inserts not published":         {"ALTER PUBLICATION % SET (publish = 'update')", cdctest.AtLeastOnce},
	} {
		t.Run(name, func(t *testing.T) {
			db := newPostgres(t)
			r := newRig(t, db, cdctest.SlotOnly, func(o *cdctest.RigOptions) { o.Delivery = tt.delivery })
			r.Start()
			load := r.Load(cdctest.Workload{Writers: 2})
			r.AwaitProgress(500)
			changed := time.Now()
			for _, sql := range statements(tt.change, db.Name()) {
				r.Must(db.Exec(t.Context(), sql))
			}
			behind := current(r, db)
			exit := r.AwaitExit(time.Minute, 5)
			t.Logf("stopped %s after the change", time.Since(changed))
			says(t, exit, "publication", db.Name())
			if confirmed := confirmed(t.Context(), r, db); confirmed > behind {
				r.Violation(cdctest.Lost, "the slot was confirmed up to %s, the publication was changed before %s", confirmed, behind)
			}
			r.Must(load.Stop())
		})
	}
}
