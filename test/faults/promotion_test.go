package faults

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// replication is a primary with a replica, and an address that can be moved from one to the other.
type replication struct {
	primary, replica *testenv.MySQLServer
	address          *testenv.ProxyServer
}

// database creates a database on the primary. The relay connects to the address.
func (s *replication) database(tb testing.TB) cdctest.Database {
	tb.Helper()
	return s.mysql(tb)
}

func (s *replication) mysql(tb testing.TB) *cdctest.MySQL {
	tb.Helper()
	db, err := cdctest.NewMySQL(tb.Context(), s.primary, databaseName(tb))
	testenv.Must(tb, err)
	db.Proxy = s.address
	return db
}

// onReplications runs fn on a replication of MySQL and on one of MariaDB, at the same time, beside other tests.
func onReplications(t *testing.T, fn func(t *testing.T, s *replication)) {
	t.Helper()
	t.Parallel()
	eachBinlog(t, func(t *testing.T, flavor string) {
		primary := testenv.MySQL(t, testenv.MySQLOptions{Flavor: flavor})
		fn(t, &replication{primary, testenv.MySQLReplica(t, primary, testenv.MySQLOptions{}), testenv.Proxy(t, primary.Addr())})
	})
}

// semiSync makes commits of primary wait until replica, which follows it at an address, has received them.
func semiSync(t *testing.T, primary, replica *testenv.MySQLServer, addr string) {
	t.Helper()
	run := func(s *testenv.MySQLServer, sql string) {
		t.Helper()
		testenv.Must(t, s.Exec(t.Context(), "", sql))
	}
	from, to := "master", "slave"
	if primary.Flavor == testenv.MySQLFlavor {
		from, to = "source", "replica"
		run(primary, "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'")
		run(replica, "INSTALL PLUGIN rpl_semi_sync_replica SONAME 'semisync_replica.so'")
	}
	for _, setting := range []string{"timeout = 4000000000", "wait_point = 'AFTER_SYNC'", "enabled = ON"} {
		run(primary, "SET GLOBAL rpl_semi_sync_"+from+"_"+setting)
	}
	run(replica, "SET GLOBAL rpl_semi_sync_"+to+"_enabled = ON; STOP REPLICA")
	ctx, cancel := context.WithTimeout(t.Context(), cdctest.Patience(time.Minute))
	defer cancel()
	testenv.Must(t, replica.FollowAt(ctx, primary, addr))
	testenv.Must(t, cdctest.Await(ctx, "the replica to acknowledge", func(ctx context.Context) (bool, error) {
		n, err := primary.Column(ctx, "SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_"+from+"_clients'", "Value")
		return err == nil && len(n) == 1 && n[0] == "1", err
	}))
}

// promote makes the replica the primary and the rigs' server.
func (s *replication) promote(rigs ...*cdctest.Rig) {
	r := rigs[0]
	r.Must(s.replica.Exec(r.Within(time.Minute), "", "START REPLICA SQL_THREAD"))
	r.Must(s.replica.Promote(r.Within(time.Minute)))
	for _, r := range rigs {
		db, _ := r.DB.(*cdctest.MySQL)
		db.Server = s.replica
	}
}

// The primary dies under load. The replica has received everything and applied a part of it. The relay connects to the
// replica, waits until it has applied what was published, and continues: nothing is lost or repeated. Events that the
// relay had not read are only in the replica's binlog.
//
//covers:binlogs 29 events both
func TestFailover(t *testing.T) {
	onReplications(t, func(t *testing.T, s *replication) {
		rigs := besides(t, s.database, cdctest.InFile, nil)
		semiSync(t, s.primary, s.replica, s.primary.Addr())
		loads := loaded(rigs)
		awaitProgress(rigs, 300)
		rigs[0].Must(s.replica.Exec(t.Context(), "", "STOP REPLICA SQL_THREAD"))
		awaitProgress(rigs, 300)
		s.address.Cut() // so that the relays cannot read
		for _, r := range rigs {
			r.Append("unread", 10) // these events, which the replica receives
		}
		rigs[0].Must(s.primary.Stop(rigs[0].Within(time.Minute), testenv.MySQLCrash))
		for i, r := range rigs {
			r.Must(loads[i].Stop())
		}
		rigs[0].Must(s.address.Redirect(s.replica.Addr()))
		rigs[0].Await("the relays to ask the replica", func(ctx context.Context) (bool, error) {
			asking, err := s.replica.Value(ctx, "SELECT COUNT(*) FROM information_schema.processlist WHERE host LIKE '127.0.0.1:%'")
			n, _ := strconv.Atoi(asking)
			return n >= len(rigs), err
		})
		s.promote(rigs...)
		for _, r := range rigs {
			r.Append("promoted", 10)
			r.Load(cdctest.Workload{Prefix: "promoted-"})
		}
		awaitProgress(rigs, 500)
		stopLoads(rigs)
		for _, r := range rigs {
			goesOnOnce(t, r)
		}
	})
}

// A switchover: the primary becomes read-only, and new connections lead to it for a while, then to the promoted replica. Those that there
// are stay, and tell nothing any more: the relay connects again and again.
//
//covers:binlogs 29 events
func TestSwitchover(t *testing.T) {
	onReplications(t, func(t *testing.T, s *replication) {
		r := newRig(t, s.database(t), cdctest.InFile, nil)
		r.Start()
		r.AwaitSaved(r.Append("before", 10))
		r.Must(s.primary.Exec(t.Context(), "", "SET GLOBAL read_only = ON"))
		gtids, err := s.primary.GTIDs(t.Context())
		r.Must(err)
		r.Must(s.replica.AwaitGTIDs(r.Within(time.Minute), gtids))
		s.promote(r)
		r.Await("the relay to leave the old primary twice", func(ctx context.Context) (bool, error) {
			n, err := r.Relay.Metric(ctx, `cdc_relay_errors_total{component="database"}`)
			return n >= 2, err
		})
		s.address.DirectNew(s.replica.Addr())
		r.AwaitSaved(r.Append("promoted", 10))
		r.Verify()
	})
}

// A replica that lacks what was published is promoted: the running relay waits for it and then exits with code 5. So does
// the next start, after the replica has committed more transactions than were lost. What it names publishes them. A dead letter whose row
// was lost is dropped as its retry says, and lets its key go. (On MariaDB a later transaction has its number: there it can be published.)
//
//covers:binlogs 13 29 exit arrivals
func TestFailoverWithLoss(t *testing.T) {
	onReplications(t, func(t *testing.T, s *replication) {
		r := newRig(t, s.database(t), cdctest.InFile, func(o *cdctest.RigOptions) { o.Settings = map[string]any{"errors.unroutable": "dead_letter"} })
		keepLetters(r, nil)
		r.Reconfigure("routes", onlyOrders(r))
		began := time.Now().UTC().Add(-time.Second).Format(time.RFC3339)
		r.Start()
		r.AwaitSaved(r.Append("before", 10))
		gtids, err := s.primary.GTIDs(t.Context())
		r.Must(err)
		r.Must(s.replica.AwaitGTIDs(r.Within(time.Minute), gtids))
		r.Must(s.replica.Exec(t.Context(), "", "STOP REPLICA IO_THREAD"))
		letter := r.AppendAs("letter", 1, stray)[0].ID.String()
		awaitCounts(r, "map[unroutable:1]")
		r.AwaitSaved(r.Append("lost", 10))
		r.Must(s.primary.Stop(r.Within(time.Minute), testenv.MySQLCrash))
		s.promote(r)
		r.Must(s.address.Redirect(s.replica.Addr()))
		refused(t, r, "not executed")
		var diverged []*cdctest.Event
		for range 5 {
			diverged = append(diverged, r.Append("diverged", 1)...)
		}
		r.Must(r.Relay.Start(t.Context()))
		said := refused(t, r, map[string]string{
			testenv.MySQLFlavor:   "not executed",
			testenv.MariaDBFlavor: "another history", // its numbers are higher, and the server reports that it does not have the relay's
		}[s.primary.Flavor])
		for _, record := range r.Reader.Records() {
			if strings.HasPrefix(record.Key, "diverged") {
				r.Violation(cdctest.Phantom, "%s of another history was published", record.EventID)
			}
		}
		follow(t, r, said, "repair", "TIME", began)
		r.Start()
		drop := "`cdc-relay dlq drop ID`"
		if s.primary.Flavor == testenv.MySQLFlavor {
			r.Await("the retry, which waits, to name the way out", func(ctx context.Context) (bool, error) {
				short, cancel := context.WithTimeout(ctx, 4*time.Second)
				defer cancel()
				drop, _ = r.Relay.Command(short, "dlq", "retry", letter)
				return strings.Contains(drop, "dlq drop"), nil
			})
		}
		follow(t, r, drop, "dlq drop", "ID", letter)
		awaitCounts(r, "map[]")
		r.AwaitEvents(slices.Concat(diverged, r.Append("diverged", 1), r.Append("letter", 1)))
	})
}

// refused waits until the relay exits because of the server's history.
func refused(t *testing.T, r *cdctest.Rig, why string) string {
	t.Helper()
	exit := r.AwaitExit(time.Minute, 5)
	says(t, exit, why, "cdc-relay repair --since TIME")
	return lastWords(exit.Log)
}
