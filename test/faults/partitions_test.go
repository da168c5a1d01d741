package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// maintained returns a database whose table also has partitions for the last four days.
func maintained(tb testing.TB, source source) cdctest.Database {
	tb.Helper()
	db := source.open(tb)
	o := outbox.TableOptions{Name: db.Table(), From: time.Now().AddDate(0, 0, -4), Ahead: 4}
	statements := outbox.PostgresTable(o).Up
	if m, ok := db.(*cdctest.MySQL); ok {
		statements = append([]outbox.Statement{{SQL: "DROP TABLE outbox"}, outbox.MySQLTable(o).Up[0]},
			outbox.MySQLMaintenance(cdc.Flavor(m.Server.Flavor), o.Name, outbox.MySQLRoutine(o.Name))...)
	}
	for _, st := range statements {
		testenv.Must(tb, db.Exec(tb.Context(), st.SQL))
	}
	return db
}

// maintaining removes what is older than two days, and makes days ahead.
func maintaining(o *cdctest.RigOptions) {
	o.Settings = map[string]any{"partitions": map[string]any{"ahead": 8, "ttl": "2d", "every": "1s"}}
}

// wantKept fails the test if the relay has dropped a day.
func wantKept(r *cdctest.Rig, day time.Time) {
	for line := range strings.Lines(r.Relay.Log()) {
		if strings.Contains(line, "change=dropped") && strings.Contains(line, day.UTC().Format("20060102")) {
			r.Violation(cdctest.Unpublished, "%s", strings.TrimSpace(line))
		}
	}
}

// awaitRows waits until the table of a day has n rows; -1: it does not exist.
func awaitRows(r *cdctest.Rig, db cdctest.Database, day time.Time, n int) {
	if m, ok := db.(*cdctest.MySQL); ok {
		awaitMySQLRows(r, m, day, n)
		return
	}
	name := cdctest.PostgresPartition(day)
	r.Await(fmt.Sprintf("%d rows in %s", n, name), func(ctx context.Context) (bool, error) {
		return db.Exec(ctx, fmt.Sprintf(`DO $$ DECLARE n int := -1; BEGIN
			IF to_regclass('%[1]s') IS NOT NULL THEN EXECUTE 'SELECT count(*) FROM %[1]s' INTO n; END IF;
			IF n <> %[2]d THEN RAISE 'it has %%', n; END IF;
		END $$`, name, n)) == nil, nil
	})
}

// awaitMySQLRows waits for the rows of a day that was taken out, or is to come. -1: it was taken out and dropped.
func awaitMySQLRows(r *cdctest.Rig, db *cdctest.MySQL, day time.Time, n int) {
	table, part := "outbox_"+day.UTC().Format("20060102"), outbox.MySQLPartition(day)
	r.Await(fmt.Sprintf("%d rows of %s", n, part), func(ctx context.Context) (bool, error) {
		from := table
		if day.After(time.Now()) {
			from = "outbox PARTITION (" + part + ")"
		}
		rows := -1
		if err := db.Query(ctx, []any{&rows}, "SELECT COUNT(*) FROM "+from); err != nil && n >= 0 {
			return false, nil // it is not there yet
		}
		left := 0
		if n < 0 {
			if err := db.Query(ctx, []any{&left}, "SELECT COUNT(*) FROM outbox WHERE created_at < ?", day.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)); err != nil {
				return false, err
			}
		}
		return rows == n && left == 0, nil
	})
}

// createdAgo lets rows be created some days ago by default.
func createdAgo(r *cdctest.Rig, db cdctest.Database, days int) {
	statement := "ALTER TABLE outbox ALTER created_at SET DEFAULT now() - interval '%d days'"
	if _, ok := db.(*cdctest.MySQL); ok {
		statement = "ALTER TABLE outbox ALTER created_at SET DEFAULT (UTC_TIMESTAMP(6) - INTERVAL %d DAY)"
	}
	r.Await("the table's lock", func(ctx context.Context) (bool, error) { return db.Exec(ctx, fmt.Sprintf(statement, days)) == nil, nil })
}

// A day past its TTL is taken out and kept while Kafka is away, and the relay is killed then. The next one drops it once the
// position has passed its events.
//
//covers:all 16 arrivals both
func TestPartitionIsKeptWhileTheRelayLags(t *testing.T) {
	onEach(t, func(t *testing.T, s source) {
		kafka := testenv.Kafka(t, testenv.KafkaOptions{})
		open := func(tb testing.TB) cdctest.Database { tb.Helper(); return maintained(tb, s) }
		keptWhileTheRelayLags(kafka.Brokers()[0], besides(t, open, cdctest.InFile, func(o *cdctest.RigOptions) {
			maintaining(o)
			o.Kafka = kafka
		}))
	})
}

func keptWhileTheRelayLags(broker *testenv.Broker, rigs []*cdctest.Rig) {
	old, release := time.Now().AddDate(0, 0, -3), make([]func(), len(rigs))
	for i, r := range rigs {
		createdAgo(r, r.DB, 3)
		release[i] = keepBusy(r)
		r.Start()
	}
	rigs[0].Must(broker.Pause())
	events := make([][]*cdctest.Event, len(rigs))
	for i, r := range rigs {
		events[i] = r.Append("k", 20)
		release[i]()
	}
	for i, r := range rigs {
		awaitUnpublished(r, old, len(events[i]))
		r.Kill()
	}
	rigs[0].Must(broker.Resume())
	for i, r := range rigs {
		longer := i == 0
		if longer { // as the message says
			r.Reconfigure("partitions", map[string]any{"ahead": 8, "ttl": "7d", "every": "1s"})
		}
		r.Start()
		r.AwaitEvents(events[i])
		if !longer {
			awaitRows(r, r.DB, old, -1)
		}
		createdAgo(r, r.DB, 0)
		r.AwaitEvents(r.Append("k", 20))
		r.AwaitCount(len(events[i]) + 20)
	}
}

// awaitUnpublished waits until the relay keeps a day past its TTL, with the n events that it has not published.
func awaitUnpublished(r *cdctest.Rig, day time.Time, n int) {
	defer wantKept(r, day)
	awaitKept(r)
	awaitRows(r, r.DB, day, n)
}

func awaitKept(r *cdctest.Rig) {
	r.Await("a partition that is kept", func(ctx context.Context) (bool, error) {
		n, err := r.Relay.Metric(ctx, "cdc_relay_partitions_unrelayed{")
		return n >= 1, err
	})
}

// keepBusy locks the table against changes of its partitions, and not against writers, until release is called.
func keepBusy(r *cdctest.Rig) (release func()) {
	if m, ok := r.DB.(*cdctest.MySQL); ok {
		return keepRead(r, m)
	}
	p, _ := r.DB.(*cdctest.Postgres)
	conn, err := pgx.Connect(r.Within(time.Minute), p.Server.DSN(p.Name(), ""))
	r.Must(err)
	_, err = conn.Exec(r.Within(time.Minute), "BEGIN; LOCK TABLE ONLY outbox IN SHARE UPDATE EXCLUSIVE MODE", pgx.QueryExecModeSimpleProtocol)
	r.Must(err)
	return func() { r.Must(conn.Close(r.Within(time.Minute))) }
}

// keepRead opens a transaction that has read the table.
func keepRead(r *cdctest.Rig, db *cdctest.MySQL) (release func()) {
	pool, err := db.Server.Open(db.Name(), nil)
	r.Must(err)
	tx, err := pool.BeginTx(r.Within(time.Minute), nil)
	r.Must(err)
	_, err = tx.ExecContext(r.Within(time.Minute), "SELECT 1 FROM outbox")
	r.Must(err)
	return func() { r.Must(errors.Join(tx.Rollback(), pool.Close())) }
}

// The relay goes on publishing while it makes, takes out and drops partitions under load, and is killed meanwhile.
//
//covers:all 16 events
func TestPartitionsAreMaintainedUnderLoad(t *testing.T) {
	onEach(t, func(t *testing.T, s source) {
		db := maintained(t, s)
		r := newRig(t, db, cdctest.InFile, maintaining)
		r.Load(cdctest.Workload{})
		r.Start()
		r.Must(r.Relay.AwaitLog(r.Within(time.Minute), `change=detached`))
		r.Kill()
		r.Start()
		for _, days := range []int{-4, -3} {
			awaitRows(r, db, time.Now().AddDate(0, 0, days), -1)
		}
		awaitRows(r, db, time.Now().AddDate(0, 0, 6), 0)
		r.AwaitProgress(500)
		r.Verify()
	})
}

// A partition is detached with CONCURRENTLY, which is cut off before its end. PostgreSQL still lets transactions with a snapshot of
// their own insert into it, and does not publish that: the relay and check say so, and what they say publishes these rows.
//
//covers:postgres 16 events
func TestDetachedConcurrently(t *testing.T) {
	t.Parallel()
	db := newPostgres(t)
	r := newRig(t, db, cdctest.InFile, nil)
	r.Start()
	r.Must(db.Exec(t.Context(), "DROP TABLE cdc_relay.public_outbox_default"))
	r.Must(db.Exec(t.Context(), "ALTER DATABASE "+db.Name()+" SET default_transaction_isolation = 'repeatable read'"))
	reader, err := pgx.Connect(r.Within(time.Minute), db.Server.DSN(db.Name(), ""))
	r.Must(err)
	_, err = reader.Exec(r.Within(time.Minute), "BEGIN; SELECT FROM outbox", pgx.QueryExecModeSimpleProtocol) // the statement waits for its end
	r.Must(err)
	day := cdctest.PostgresPartition(time.Now())
	detaching, cut := context.WithCancel(t.Context())
	cutOff := make(chan error, 1)
	go func() { cutOff <- db.Exec(detaching, "ALTER TABLE outbox DETACH PARTITION "+day+" CONCURRENTLY") }()
	r.Must(r.Relay.AwaitLog(r.Within(time.Minute), "is being detached"))
	cut()
	<-cutOff
	missing := r.Append("k", 10)
	said := command(t, r, "check")
	r.Must(reader.Close(r.Within(time.Minute)))
	statement, err := cdctest.Printed(said, "ALTER TABLE")
	r.Must(err)
	for _, sql := range []string{
		statement, "CREATE TABLE today PARTITION OF outbox DEFAULT",
		"WITH moved AS (DELETE FROM " + day + " RETURNING *) INSERT INTO outbox SELECT * FROM moved",
	} {
		r.Must(db.Exec(r.Within(time.Minute), sql))
	}
	r.AwaitEvents(missing)
	once(t, r)
}
