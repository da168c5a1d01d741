package faults

import (
	"syscall"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// The relay reconnects after its connections are cut under load, and one process publishes nothing twice.
//
//covers:all 31 events both
func TestConnectionsCut(t *testing.T) {
	kafka := shared.kafka.Brokers()[0].Proxy()
	var all []*cdctest.Rig
	var databases []*testenv.ProxyServer
	for name, s := range sources() {
		open := func(tb testing.TB) cdctest.Database {
			tb.Helper()
			db := s.open(ofSource{tb, name})
			databases = append(databases, db.ThroughProxy(t))
			return db
		}
		all = append(all, besides(t, open, s.least(), func(o *cdctest.RigOptions) { o.Listener = testenv.ListenerProxied })...)
	}
	loaded(all)
	t.Cleanup(func() { _ = kafka.Restore() })
	for i := range 5 {
		ways := databases
		if i%2 == 1 {
			ways = []*testenv.ProxyServer{kafka}
		}
		awaitProgress(all, 500)
		for _, way := range ways {
			way.Cut()
		}
		all[0].Delay(200 * time.Millisecond)
		for _, way := range ways {
			all[0].Must(way.Restore())
		}
	}
	awaitProgress(all, 500)
	stopLoads(all)
	for _, r := range all {
		goesOnOnce(t, r)
	}
}

// The relay is frozen until the server closes its connection; then it continues from its position.
//
//covers:all 6 events
func TestResumeAfterFreeze(t *testing.T) {
	onEach(t, func(t *testing.T, s source) {
		db := s.open(t)
		way := db.ThroughProxy(t)
		r := newRig(t, db, s.least(), nil)
		r.Start()
		r.Load(cdctest.Workload{})
		r.AwaitProgress(300)
		r.Must(r.Relay.Signal(syscall.SIGSTOP))
		if s.name == "postgres" {
			r.Hold(12 * time.Second) // wal_sender_timeout is 10 s on the relay's connection
		} else {
			r.Hold(2 * time.Second)
			way.Cut()
			r.Must(way.Restore())
		}
		r.Must(r.Relay.Signal(syscall.SIGCONT))
		r.AwaitProgress(500)
		goesOnOnce(t, r)
	})
}
