package faults

import (
	"context"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// The primary dies under a leader and a standby. One of them leads on the promoted server, and the other stands by: nothing is
// lost, and what is repeated is in order.
//
//covers:postgres 29 7 events
func TestPostgresFailoverBesideAStandby(t *testing.T) {
	t.Parallel()
	p := newPair(t, 17)
	r, db := p.rig(t, cdctest.InRedis, cdctest.AtLeastOnce)
	standby := r.Second()
	startStandby(t, r, standby)
	r.Must(p.primary.Alter(t.Context(), "synchronized_standby_slots = 'standby'", "synchronous_standby_names = 'walreceiver'"))
	load := r.Load(cdctest.Workload{})
	r.AwaitProgress(300)
	r.Must(p.primary.Stop(r.Within(time.Minute), testenv.Immediate))
	r.Must(load.Stop())
	r.Fault("failover")
	r.Must(p.address.Redirect(p.standby.Addr()))
	r.Must(p.standby.Promote(t.Context()))
	db.Server = p.standby
	r.Load(cdctest.Workload{Prefix: "promoted-"})
	r.AwaitProgress(300)
	r.StopLoad()
	oneLeads(t, r, standby)
	r.Verify()
}

// The same on MySQL and MariaDB: the lock is a lock of the server, and the promoted one has none yet.
//
//covers:binlogs 29 7 events
func TestFailoverBesideAStandby(t *testing.T) {
	onReplications(t, func(t *testing.T, s *replication) {
		r := newRig(t, s.database(t), cdctest.InRedis, nil)
		semiSync(t, s.primary, s.replica, s.primary.Addr())
		r.Start()
		standby := r.Second()
		startStandby(t, r, standby)
		load := r.Load(cdctest.Workload{})
		r.AwaitProgress(300)
		s.address.Cut()
		r.Append("unread", 10) // once it returns, the replica has received what the relay had read before it did
		r.Must(s.primary.Stop(r.Within(time.Minute), testenv.MySQLCrash))
		r.Must(load.Stop())
		r.Fault("failover")
		s.promote(r)
		r.Must(s.address.Redirect(s.replica.Addr()))
		r.Load(cdctest.Workload{Prefix: "promoted-"})
		r.AwaitProgress(300)
		r.StopLoad()
		oneLeads(t, r, standby)
		r.Verify()
	})
}

// oneLeads waits until one of the two relays leads, and the other stands by or was restarted to stand by, as it asks for. The leader
// becomes the rig's relay, which Verify waits for.
func oneLeads(t *testing.T, r *cdctest.Rig, standby *cdctest.Relay) {
	t.Helper()
	leader := r.Relay
	r.Await("one of the relays to lead, the other to stand by", func(ctx context.Context) (bool, error) {
		leaders := 0.0
		for _, relay := range []*cdctest.Relay{r.Relay, standby} {
			if err := revive(ctx, relay); err != nil {
				return false, err
			}
			leads, err := relay.Metric(ctx, "cdc_relay_leader ")
			if err != nil {
				return false, nil //nolint:nilerr // it has just started
			}
			leaders += leads
			if leads == 1 {
				leader = relay
			}
		}
		return leaders == 1, nil
	})
	r.Relay = leader
}
