package faults

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// pair is a primary of PostgreSQL 17 or newer and its standby behind one address.
type pair struct {
	primary, standby *testenv.PostgresServer
	address          *testenv.ProxyServer
}

func newPair(t *testing.T, version int) *pair {
	t.Helper()
	primary := testenv.Postgres(t, testenv.PostgresOptions{Version: version})
	standby := testenv.PostgresStandby(t, primary, testenv.PostgresOptions{})
	return &pair{primary, standby, testenv.Proxy(t, primary.Addr())}
}

// rig returns a rig whose slot is synchronized to the standby.
func (p *pair) rig(t *testing.T, checkpoint cdctest.Checkpoint, delivery cdctest.Delivery) (*cdctest.Rig, *cdctest.Postgres) {
	t.Helper()
	db, err := cdctest.NewPostgres(t.Context(), p.primary, databaseName(t))
	testenv.Must(t, err)
	db.Proxy = p.address
	r := newRig(t, db, checkpoint, func(o *cdctest.RigOptions) { o.Delivery = delivery })
	r.Start()
	onStandby := cdctest.OpenPostgres(p.standby, db.Name())
	r.Await("the slot on the standby", func(ctx context.Context) (bool, error) {
		var synced bool
		if err := p.primary.Exec(ctx, "postgres", "SELECT pg_log_standby_snapshot()"); err != nil {
			return false, err
		}
		err := onStandby.Query(ctx, []any{&synced}, "SELECT coalesce(bool_or(synced AND NOT temporary), false) FROM pg_replication_slots WHERE slot_name = $1", db.Name())
		return synced && err == nil, nil
	})
	return r, db
}

// The primary is killed under load and the standby promoted: the relay recognises the new timeline and continues; nothing
// is repeated.
//
//covers:postgres 29 events both
func TestPostgresFailover(t *testing.T) {
	t.Parallel()
	for version, delivery := range map[int]cdctest.Delivery{17: cdctest.AtLeastOnce, 18: cdctest.ExactlyOnce} {
		t.Run(strconv.Itoa(version), func(t *testing.T) {
			p := newPair(t, version)
			r, db := p.rig(t, cdctest.InFile, delivery)
			// Commits wait for the standby, so that the promotion loses none.
			r.Must(p.primary.Alter(t.Context(), "synchronized_standby_slots = 'standby'", "synchronous_standby_names = 'walreceiver'"))
			load := r.Load(cdctest.Workload{})
			r.AwaitProgress(1000)
			r.Must(p.primary.Stop(r.Within(time.Minute), testenv.Immediate))
			r.Must(load.Stop())
			r.Must(p.address.Redirect(p.standby.Addr()))
			r.Must(r.Relay.AwaitLog(r.Within(time.Minute), "is a standby that synchronizes"))
			r.Must(p.standby.Promote(t.Context()))
			db.Server = p.standby
			r.Load(cdctest.Workload{Prefix: "promoted-"})
			r.AwaitProgress(1000)
			goesOnOnce(t, r)
			r.Must(r.TermRelay().Do(t.Context(), r.Random)) // the checkpoint has the new timeline
			r.AwaitSaved(r.Append("restarted", 10))
		})
	}
}

// A standby is promoted while it is read, under load. The relay continues with what is written to it then; nothing is lost or
// repeated, and the next start recognises the timeline of the position.
//
//covers:postgres 29 events both
func TestStandbyIsPromotedWhileItIsRead(t *testing.T) {
	t.Parallel()
	for version, delivery := range map[int]cdctest.Delivery{17: cdctest.AtLeastOnce, 18: cdctest.ExactlyOnce} {
		t.Run(strconv.Itoa(version), func(t *testing.T) {
			primary := testenv.Postgres(t, testenv.PostgresOptions{Version: version})
			standby := testenv.PostgresStandby(t, primary, testenv.PostgresOptions{Settings: map[string]string{"sync_replication_slots": "off"}})
			r, db := onStandby(t, primary, standby, func(*cdctest.Postgres) func(*cdctest.RigOptions) {
				return func(o *cdctest.RigOptions) { o.Delivery = delivery }
			})
			r.Start()
			load := r.Load(cdctest.Workload{})
			r.AwaitProgress(1000)
			r.Must(primary.Stop(r.Within(time.Minute), testenv.Immediate))
			r.Must(load.Stop())
			r.Must(standby.Promote(t.Context()))
			db.Server = standby
			r.Load(cdctest.Workload{Prefix: "promoted-"})
			r.AwaitProgress(1000)
			r.Must(cdctest.Await(r.Within(time.Minute), "positions with the new timeline", func(ctx context.Context) (bool, error) {
				status, err := r.Relay.Get(ctx, "/status")
				return strings.Contains(status, `"timeline": 2`), err
			}))
			goesOnOnce(t, r)
			r.Must(r.TermRelay().Do(t.Context(), r.Random))
			r.AwaitSaved(r.Append("restarted", 10))
		})
	}
}

// onStandby returns a rig whose writers use the primary, and whose relay reads the standby. Commits wait for the standby. change is given
// the database there.
func onStandby(t *testing.T, primary, standby *testenv.PostgresServer, change func(*cdctest.Postgres) func(*cdctest.RigOptions)) (*cdctest.Rig, *cdctest.Postgres) {
	t.Helper()
	db, err := cdctest.NewPostgres(t.Context(), primary, databaseName(t))
	testenv.Must(t, err)
	waiting, cancel := context.WithTimeout(t.Context(), cdctest.Patience(time.Minute))
	defer cancel()
	err = cdctest.Await(waiting, "the database on the standby", func(ctx context.Context) (bool, error) {
		return standby.Exec(ctx, db.Name(), "SELECT 1 FROM outbox") == nil, nil
	})
	testenv.Must(t, err)
	db.Proxy = testenv.Proxy(t, standby.Addr())
	r := newRig(t, db, cdctest.InFile, change(cdctest.OpenPostgres(standby, db.Name())))
	r.Must(db.LoseLog(t.Context())) // it reads a slot of the standby
	r.Must(primary.Alter(t.Context(), "synchronous_standby_names = '*'"))
	made := make(chan error, 1)
	go func() {
		made <- standby.Exec(t.Context(), db.Name(), "SELECT pg_create_logical_replication_slot('"+db.Name()+"', 'pgoutput')")
	}()
	r.Await("the slot on the standby", func(ctx context.Context) (bool, error) {
		select {
		case err := <-made:
			return true, err
		default:
			return false, primary.Exec(ctx, "postgres", "SELECT pg_log_standby_snapshot()")
		}
	})
	return r, db
}

// The promoted standby lacks what was published: the relay exits with code 5 before it publishes anything. What it names publishes
// the rows of the new history.
//
//covers:postgres 13 29 exit arrivals
func TestPostgresFailoverWithLoss(t *testing.T) {
	t.Parallel()
	p := newPair(t, 17)
	r, db := p.rig(t, cdctest.InFile, cdctest.AtLeastOnce)
	began := time.Now().UTC().Add(-time.Second).Format(time.RFC3339)
	r.AwaitSaved(r.Append("kept", 10))
	r.Must(p.standby.Stop(r.Within(time.Minute), testenv.Fast))
	r.AwaitSaved(r.Append("lost", 10))
	r.Must(p.primary.Stop(r.Within(time.Minute), testenv.Immediate))
	r.Must(p.standby.Start(r.Within(time.Minute)))
	r.Must(p.standby.Promote(t.Context()))
	db.Server = p.standby
	diverged := r.Append("diverged", 10)
	for i := range 20 { // its WAL reaches beyond what was published
		busy(t.Context(), r, db, 1+i%2)
	}
	r.Must(p.address.Redirect(p.standby.Addr()))
	exit := r.AwaitExit(time.Minute, 5)
	says(t, exit, "timeline")
	follow(t, r, lastWords(exit.Log), "repair", "TIME", began)
	r.Start()
	r.AwaitEvents(append(diverged, r.Append("diverged", 1)...))
}
