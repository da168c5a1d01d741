package faults

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// looks has a consumer look for the row of each event when it arrives, by a new statement on db.
func looks(t *testing.T, db cdctest.Database) func(*cdctest.RigOptions) {
	t.Helper()
	session := looker(t, db)
	return func(o *cdctest.RigOptions) {
		o.Each = func(rec cdctest.Record) {
			switch seen, err := session.Sees(t.Context(), rec.EventID); {
			case t.Context().Err() != nil:
			case err != nil:
				t.Error(err)
			case !seen:
				cdctest.Violation(t, cdctest.Phantom, "event %s arrived before its row can be read", rec.EventID)
			}
		}
	}
}

// rowsBeforeEvents runs the rig's relay under load.
func rowsBeforeEvents(t *testing.T, r *cdctest.Rig) {
	t.Helper()
	r.Start()
	r.Load(cdctest.Workload{Writers: 8, Pause: time.Millisecond, Rows: 1})
	r.AwaitProgress(2000) // each asks the database for its row
	once(t, r)
}

func looker(t *testing.T, db cdctest.Database) cdctest.Looker {
	t.Helper()
	session, err := db.Connect(t.Context())
	testenv.Must(t, err)
	t.Cleanup(session.Close)
	l, ok := session.(cdctest.Looker)
	if !ok {
		t.Fatalf("%T cannot look for rows", session)
	}
	return l
}

// No event arrives before its row can be read, under load.
//
//covers:all 36 events
func TestRowsBeforeEvents(t *testing.T) {
	onEach(t, func(t *testing.T, s source) {
		db := s.open(t)
		rowsBeforeEvents(t, newRig(t, db, cdctest.InFile, looks(t, db)))
	})
}

// synchronousPair is a primary whose commits wait for a standby, and the way from the standby to the primary.
func synchronousPair(t *testing.T) (p *pair, way *testenv.ProxyServer) {
	t.Helper()
	primary := testenv.Postgres(t, testenv.PostgresOptions{Version: 17})
	way = testenv.Proxy(t, primary.Addr())
	host, port, err := net.SplitHostPort(way.Addr())
	testenv.Must(t, err)
	standby := testenv.PostgresStandby(t, primary, testenv.PostgresOptions{Settings: map[string]string{
		"primary_conninfo": fmt.Sprintf("host=%s port=%s user=postgres dbname=postgres application_name=standby", host, port),
	}})
	testenv.Must(t, primary.Alter(t.Context(), "synchronous_standby_names = 'standby'"))
	return &pair{primary: primary, standby: standby}, way
}

// The relay reads a standby, whose snapshots do not tell what is visible. A consumer reads the same standby.
//
//covers:postgres 36 events
func TestRowsBeforeEventsOfAStandby(t *testing.T) {
	t.Parallel()
	primary := testenv.Postgres(t, testenv.PostgresOptions{Version: 17})
	standby := testenv.PostgresStandby(t, primary, testenv.PostgresOptions{Settings: map[string]string{"sync_replication_slots": "off"}})
	r, _ := onStandby(t, primary, standby, func(there *cdctest.Postgres) func(*cdctest.RigOptions) { return looks(t, there) })
	rowsBeforeEvents(t, r)
}

// The relay reads a replica, which has the rows later than the primary. A consumer reads the same replica.
//
//covers:binlogs 36 events
func TestRowsBeforeEventsOfAReplica(t *testing.T) {
	onReplications(t, func(t *testing.T, s *replication) {
		db := s.mysql(t)
		gtids, err := s.primary.GTIDs(t.Context())
		testenv.Must(t, err)
		testenv.Must(t, errors.Join(s.replica.AwaitGTIDs(t.Context(), gtids), s.address.Redirect(s.replica.Addr())))
		rowsBeforeEvents(t, newRig(t, db, cdctest.InFile, looks(t, cdctest.OpenMySQL(s.replica, db.Name()))))
	})
}

// A commit waits for a standby that has gone silent. It is not published, while the relay serves its connection, and SIGTERM ends
// the relay. Then the primary is killed: the promoted standby lacks the row, and Kafka the event.
//
//covers:postgres 29 36 arrivals
func TestCommitThatAFailoverTakesBack(t *testing.T) {
	t.Parallel()
	p, way := synchronousPair(t)
	db, err := cdctest.NewPostgres(t.Context(), p.primary, databaseName(t))
	testenv.Must(t, err)
	r := newRig(t, db, cdctest.InFile, nil)
	r.Start()
	r.AwaitEvents(r.Append("kept", 10))
	way.Swallow(testenv.Responses)
	hung := cdctest.NewEvent("hung", 0, 100)
	ended := commits(t, db, hung)
	r.Await("the commit to wait", func(ctx context.Context) (waits bool, err error) {
		err = db.Query(ctx, []any{&waits}, "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = $1 AND wait_event = 'SyncRep'", db.Name())
		return waits, err
	})
	for range 3 { // one each three seconds
		var last time.Time
		status := "SELECT coalesce(max(reply_time), 'epoch') FROM pg_stat_replication JOIN pg_replication_slots ON active_pid = pid WHERE slot_name = $1"
		r.Must(db.Query(r.Within(time.Minute), []any{&last}, status, db.Name()))
		r.Await("a status update of the relay", func(ctx context.Context) (bool, error) {
			var at time.Time
			err := db.Query(ctx, []any{&at}, status, db.Name())
			return at.After(last), err
		})
		absent(r, hung)
	}
	sigterm(r)
	way.Cut() // a server that shuts down waits for connections that have sent no request yet
	r.Must(p.primary.Stop(r.Within(time.Minute), testenv.Immediate))
	if err := <-ended; err == nil {
		t.Error("the commit ended without the standby")
	}
	r.Must(p.standby.Promote(r.Within(time.Minute)))
	db.Server = p.standby
	seen, err := looker(t, db).Sees(t.Context(), hung.ID)
	r.Must(err)
	if seen {
		t.Error("the standby has the row, so the test shows nothing")
	}
	r.Must(r.Reader.CatchUp(r.Within(time.Minute)))
	absent(r, hung)
}

// A commit waits for a semi-synchronous replica that has gone silent. It is not published, while the relay reports the wait and ends at
// SIGTERM. The promoted replica lacks the row, Kafka the event, and the relay goes on there.
//
//covers:binlogs 29 36 events
func TestCommitThatAPromotionTakesBack(t *testing.T) {
	t.Parallel()
	eachBinlog(t, func(t *testing.T, flavor string) {
		primary, replica := testenv.MySQL(t, testenv.MySQLOptions{Flavor: flavor}), testenv.MySQL(t, testenv.MySQLOptions{Flavor: flavor})
		way := testenv.Proxy(t, primary.Addr())
		semiSync(t, primary, replica, way.Addr())
		s := &replication{primary, replica, testenv.Proxy(t, primary.Addr())}
		r := newRig(t, s.database(t), cdctest.InFile, nil)
		r.Start()
		r.AwaitSaved(r.Append("kept", 10))
		way.Swallow(testenv.Responses)
		hung := cdctest.NewEvent("hung", 0, 100)
		ended := commits(t, r.DB, hung)
		r.Await("the relay to report the wait", func(ctx context.Context) (bool, error) { // after 10 s
			status, err := r.Relay.Get(ctx, "/status")
			return strings.Contains(status, "is committed but not visible"), err
		})
		absent(r, hung)
		_, err := r.Relay.Get(r.Within(time.Minute), "/livez")
		r.Must(err)
		sigterm(r)
		r.Must(primary.Stop(r.Within(time.Minute), testenv.MySQLCrash))
		if err := <-ended; err == nil {
			t.Error("the commit ended without the replica")
		}
		way.Cut()
		s.promote(r)
		seen, err := looker(t, r.DB).Sees(t.Context(), hung.ID)
		r.Must(err)
		if seen {
			t.Error("the replica has the row, so the test shows nothing")
		}
		r.Must(s.address.Redirect(replica.Addr()))
		r.Start()
		r.AwaitEvents(r.Append("promoted", 10))
		absent(r, hung)
		r.Verify()
	})
}

// commits inserts an event in a transaction of its own. The channel gets the commit's error.
func commits(t *testing.T, db cdctest.Database, e *cdctest.Event) <-chan error {
	t.Helper()
	session, err := db.Connect(t.Context())
	testenv.Must(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(func() {
		cancel() // Close waits for a statement that runs
		session.Close()
	})
	ended := make(chan error, 1)
	go func() {
		for _, step := range []func() error{
			func() error { return session.Begin(ctx) },
			func() error { return session.Insert(ctx, []*cdctest.Event{e}) },
			func() error { return session.Commit(ctx) },
		} {
			if err := step(); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	return ended
}

func absent(r *cdctest.Rig, e *cdctest.Event) {
	if r.Reader.Has(e.ID) {
		r.Violation(cdctest.Phantom, "event %s was published before its commit was acknowledged", e.ID)
	}
}
