package wal

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/internal/wal"
	"github.com/cdc-relay/cdc-relay/test/conformance"
)

// Between Acquire and Run the slot stays active, for longer than wal_sender_timeout and with much data to send.
func TestSlotIsHeldUntilRun(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	s := d.source()
	acquire(t, s)
	defer s.Release(t.Context())
	const walsender = `FROM pg_stat_replication JOIN pg_replication_slots ON active_pid = pid WHERE slot_name = $1`
	var pid int
	testenv.Must(t, d.conn.QueryRow(t.Context(), "SELECT pid "+walsender, d.name).Scan(&pid))
	for i := range 30 {
		d.insert(1000*i+1, 1000*i+1000)
	}
	for held := time.Duration(0); held < 12*time.Second; {
		err := d.conn.QueryRow(t.Context(), "SELECT clock_timestamp() - backend_start, pg_sleep(0.2) "+walsender+" AND pid = $2", d.name, pid).Scan(&held, nil)
		if err != nil {
			t.Fatalf("the walsender that Acquire started is gone after %s: %v", held, err)
		}
	}
	r := conformance.Run(t, s, newQueue(t))
	r.Await(30_000)
	r.MustStop()
	r.ExpectUpTo(1, 30_000)
}

// A look at the publication that is under way when Run is called is cut short, which closes its connection. That is no reason
// to give the slot up.
//
//covers:postgres 7 rows both
func TestReadingBeginsDuringALook(t *testing.T) {
	d := newDatabase(t)
	way := testenv.Proxy(t, server.Addr())
	var connects atomic.Int32
	s := d.sourceWith(wal.Options{Options: postgres.Options{DSN: func(context.Context) (string, error) {
		if connects.Add(1) == 1 { // that of the looks
			return strings.Replace(server.DSN(d.name, ""), server.Addr(), way.Addr(), 1), nil
		}
		return server.DSN(d.name, ""), nil
	}}})
	acquire(t, s)
	defer s.Release(t.Context())
	way.Swallow(testenv.Responses)
	since := d.text("SELECT clock_timestamp()::text")
	d.await("a look at the publication", `EXISTS (SELECT FROM pg_stat_activity
		WHERE datname = $1 AND backend_type = 'client backend' AND pid <> pg_backend_pid() AND query_start > $2::text::timestamptz)`, d.name, since)
	r := conformance.Run(t, s, newQueue(t))
	d.insert(1, 10)
	r.Await(10) // the slot was not given up
	r.MustStop()
}

// A shutdown of the server waits for its walsenders. The connection is closed even before Run, and Run reports it.
func TestShutdownBeforeRun(t *testing.T) {
	shared := server
	defer func() { server = shared }()
	server = testenv.Postgres(t, testenv.PostgresOptions{Settings: map[string]string{"wal_sender_timeout": "1h"}}) // which would end it too
	d := newDatabase(t)
	s := d.source()
	acquire(t, s)
	t.Cleanup(func() { s.Release(context.WithoutCancel(t.Context())) }) // after the source has ended: it cleans up first
	d.insert(1, 30_000)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	testenv.Must(t, server.Stop(ctx, testenv.Fast))
	r := conformance.Run(t, s, newQueue(t))
	if err := r.Ended(); err == nil {
		t.Error("Run continued with a closed connection")
	}
	testenv.Must(t, server.Start(t.Context()))
	r.Again(none).ExpectUpTo(1, 30_000)
}

func (d *database) awaitFree() {
	d.t.Helper()
	d.await("the slot", "EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1 AND NOT active)", d.name)
}
