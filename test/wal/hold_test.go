package wal

import (
	"context"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// Between Acquire and Run the slot stays active, for longer than wal_sender_timeout and with much data to send.
func TestSlotIsHeldUntilRun(t *testing.T) {
	d := newDatabase(t)
	s, q := d.source(), newQueue(t)
	if _, _, err := s.Acquire(t.Context(), none); err != nil {
		t.Fatal(err)
	}
	defer s.Release(t.Context())
	const walsender = `FROM pg_stat_replication JOIN pg_replication_slots ON active_pid = pid WHERE slot_name = $1`
	var pid int
	if err := d.conn.QueryRow(t.Context(), "SELECT pid "+walsender, d.name).Scan(&pid); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		d.insert(1000*i+1, 1000*i+1000)
	}
	for held := time.Duration(0); held < 12*time.Second; {
		err := d.conn.QueryRow(t.Context(), "SELECT clock_timestamp() - backend_start, pg_sleep(0.2) "+walsender+" AND pid = $2", d.name, pid).Scan(&held, nil)
		if err != nil {
			t.Fatalf("the walsender that Acquire started is gone after %s: %v", held, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, q) }()
	q.waitCount(t, 30_000)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	equal(t, q.held(), numbers(1, 30_000))
}

// A shutdown of the server waits for its walsenders. The connection is closed even before Run, and Run reports it.
func TestShutdownBeforeRun(t *testing.T) {
	shared := server
	defer func() { server = shared }()
	server = testenv.Postgres(t, testenv.PostgresOptions{})
	d := newDatabase(t)
	s, q := d.source(), newQueue(t)
	if _, _, err := s.Acquire(t.Context(), none); err != nil {
		t.Fatal(err)
	}
	defer s.Release(t.Context())
	d.insert(1, 30_000)
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second) // below wal_sender_timeout, which would end it too
	defer cancel()
	if err := server.Stop(ctx, testenv.Fast); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), q); err == nil {
		t.Error("Run continued with a closed connection")
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	tailing(t, s, q)
	q.waitCount(t, 30_000)
	equal(t, q.held(), numbers(1, 30_000))
}

// Release frees a slot without Run, and a second Release is harmless.
func TestReleaseFreesTheSlot(t *testing.T) {
	d := newDatabase(t)
	s := d.source()
	for range 3 {
		if _, _, err := s.Acquire(t.Context(), none); err != nil {
			t.Fatal(err)
		}
		s.Release(t.Context())
		s.Release(t.Context())
		d.awaitFree()
	}
}

func (d *database) awaitFree() {
	d.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for active := true; active; {
		if time.Now().After(deadline) {
			d.t.Fatal("the slot is still active")
		}
		if err := d.conn.QueryRow(d.t.Context(), "SELECT active, pg_sleep(0.01) FROM pg_replication_slots WHERE slot_name = $1", d.name).Scan(&active, nil); err != nil {
			d.t.Fatal(err)
		}
	}
}
