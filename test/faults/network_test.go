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
//covers:postgres 31 events both
func TestConnectionsCut(t *testing.T) {
	database, kafka := testenv.Proxy(t, shared.postgres.Addr()), shared.kafka.Brokers()[0].Proxy()
	open := func(tb testing.TB) cdctest.Database {
		tb.Helper()
		db := newPostgres(tb)
		db.Proxy = database
		return db
	}
	rigs := besides(t, open, cdctest.SlotOnly, func(o *cdctest.RigOptions) { o.Listener = testenv.ListenerProxied })
	loaded(rigs)
	for _, way := range []*testenv.ProxyServer{database, kafka, database, kafka, database} {
		t.Cleanup(func() { _ = way.Restore() })
		awaitProgress(rigs, 500)
		way.Cut()
		rigs[0].Delay(200 * time.Millisecond)
		rigs[0].Must(way.Restore())
	}
	awaitProgress(rigs, 500)
	for _, r := range rigs {
		goesOnOnce(t, r)
	}
}

// The relay is frozen for longer than wal_sender_timeout, so that the server closes its connection; then it continues from
// its position.
//
//covers:postgres 6 events
func TestResumeAfterFreeze(t *testing.T) {
	t.Parallel()
	r := newRig(t, newPostgres(t), cdctest.SlotOnly, nil)
	r.Start()
	r.Load(cdctest.Workload{Pause: 20 * time.Millisecond})
	r.AwaitProgress(500)
	r.Must(r.Relay.Signal(syscall.SIGSTOP))
	r.Hold(12 * time.Second) // wal_sender_timeout is 10 s on the relay's connection
	r.Must(r.Relay.Signal(syscall.SIGCONT))
	r.AwaitProgress(500)
	r.Verify()
	if n := r.Relay.Starts(); n != 1 {
		t.Errorf("the relay was started %d times", n)
	}
}
