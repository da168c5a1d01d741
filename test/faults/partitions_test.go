package faults

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// maintained returns a database whose table also has partitions for the last four days.
func maintained(t *testing.T) *cdctest.Postgres {
	t.Helper()
	db := newPostgres(t)
	script, err := outbox.PostgresTable(outbox.TableOptions{
		Name: outbox.Name{Schema: "public", Table: "outbox"}, From: time.Now().AddDate(0, 0, -4), Ahead: 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range script.Up {
		if err := db.Exec(t.Context(), st.SQL); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// maintaining removes what is older than two days, and makes days ahead.
func maintaining(o *cdctest.RigOptions) {
	o.Settings = map[string]any{"partitions": map[string]any{"ahead": 6, "ttl": "2d", "every": "1s"}}
}

// awaitRows waits until the table of a day has n rows; -1: it does not exist.
func awaitRows(r *cdctest.Rig, db *cdctest.Postgres, day time.Time, n int) {
	name := outbox.PostgresPartition(outbox.Name{Schema: "public", Table: "outbox"}, day).SQL()
	r.Await(fmt.Sprintf("%d rows in %s", n, name), func(ctx context.Context) (bool, error) {
		return db.Exec(ctx, fmt.Sprintf(`DO $$ DECLARE n int := -1; BEGIN
			IF to_regclass('%[1]s') IS NOT NULL THEN EXECUTE 'SELECT count(*) FROM %[1]s' INTO n; END IF;
			IF n <> %[2]d THEN RAISE 'it has %%', n; END IF;
		END $$`, name, n)) == nil, nil
	})
}

// A day past its TTL is taken out and kept while Kafka is away, and the relay is killed then. The next one drops it once the
// position has passed its events.
//
//covers:postgres 16 arrivals
func TestPartitionIsKeptWhileTheRelayLags(t *testing.T) {
	t.Parallel()
	db := maintained(t)
	kafka := testenv.Kafka(t, testenv.KafkaOptions{})
	r := newRig(t, db, cdctest.InFile, func(o *cdctest.RigOptions) {
		maintaining(o)
		o.Kafka = kafka
	})
	old := time.Now().AddDate(0, 0, -3)
	r.Must(db.Exec(t.Context(), "ALTER TABLE outbox ALTER created_at SET DEFAULT now() - interval '3 days'"))
	events := keptBusy(t, r, db, func() []*cdctest.Event {
		r.Start()
		r.Must(kafka.Brokers()[0].Pause())
		return r.Append("k", 20)
	})
	r.Await("a partition that is kept", func(ctx context.Context) (bool, error) {
		n, err := r.Relay.Metric(ctx, `cdc_relay_partitions_unrelayed{table="public.outbox"}`)
		return n >= 1, err
	})
	awaitRows(r, db, old, len(events))
	r.Kill()
	r.Must(kafka.Brokers()[0].Resume())
	r.Start()
	r.AwaitEvents(events)
	awaitRows(r, db, old, -1)
	r.Must(db.Exec(t.Context(), "ALTER TABLE outbox ALTER created_at SET DEFAULT now()"))
	after := r.Append("k", 20)
	r.AwaitEvents(after)
	if _, n := r.Reader.Count(); n != len(events)+len(after) {
		t.Errorf("%d events were published, of %d", n, len(events)+len(after))
	}
}

// keptBusy calls fn while the table is locked against changes of its partitions, and not against writers.
func keptBusy(t *testing.T, r *cdctest.Rig, db *cdctest.Postgres, fn func() []*cdctest.Event) []*cdctest.Event {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.Server.DSN(db.Name(), ""))
	r.Must(err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	_, err = conn.Exec(t.Context(), "BEGIN; LOCK TABLE ONLY outbox IN SHARE UPDATE EXCLUSIVE MODE", pgx.QueryExecModeSimpleProtocol)
	r.Must(err)
	return fn()
}

// The relay goes on publishing while it makes, takes out and drops partitions under load, and is killed meanwhile.
//
//covers:postgres 16 events
func TestPartitionsAreMaintainedUnderLoad(t *testing.T) {
	t.Parallel()
	db := maintained(t)
	r := newRig(t, db, cdctest.InFile, maintaining)
	r.Load(cdctest.Workload{})
	r.Start()
	r.Must(r.Relay.AwaitLog(r.Within(time.Minute), `change="taken out"`))
	r.Kill()
	r.Start()
	for _, days := range []int{-4, -3} {
		awaitRows(r, db, time.Now().AddDate(0, 0, days), -1)
	}
	awaitRows(r, db, time.Now().AddDate(0, 0, 6), 0)
	r.AwaitProgress(500)
	r.Verify()
}
