package wal

import (
	"context"
	"errors"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// If the server does not send the checkpoint's last commit again, the checkpoint is of another history. The relay must not
// confirm its position, neither before nor after it notices.
//
//covers:postgres 13 state both
func TestOtherHistoryConfirmsNothing(t *testing.T) {
	d := newDatabase(t)
	s, q := d.source(), newQueue(t)
	id, from, err := s.Acquire(t.Context(), none)
	if err != nil {
		t.Fatal(err)
	}
	s.Release(t.Context())
	d.awaitFree()
	d.insert(1, 1)
	d.exec("CREATE TABLE more (x int)") // WAL after the commit
	var end string
	if err := d.conn.QueryRow(t.Context(), "SELECT lpad(upper(to_hex((pg_current_wal_flush_lsn() - '0/0')::bigint)), 16, '0')").Scan(&end); err != nil {
		t.Fatal(err)
	}
	c := cdc.Checkpoint{Source: id, Progress: cdc.Progress{Position: cdc.Position(end), Commit: cdc.Position(end), TxID: "7"}}
	s = d.source()
	if _, _, err := s.Acquire(t.Context(), func(context.Context, cdc.Source) (cdc.Checkpoint, bool, error) { return c, true, nil }); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(t.Context(), q) }()
	var stop *cdc.StopError
	if err := <-done; !errors.As(err, &stop) || stop.Reason != "other_history" {
		t.Fatalf("the relay continued, and ended with %v", err)
	}
	var confirmed string
	if err := d.conn.QueryRow(t.Context(), `SELECT lpad(upper(to_hex((confirmed_flush_lsn - '0/0')::bigint)), 16, '0')
		FROM pg_replication_slots WHERE slot_name = $1`, d.name).Scan(&confirmed); err != nil {
		t.Fatal(err)
	}
	if confirmed != string(from) {
		cdctest.Violation(t, cdctest.Lost, "the slot was moved from %s to %s, and nothing was published", from, confirmed)
	}
}

// The checkpoint's last commit comes again at its position, but it is another transaction: a restored backup and a clone
// have one there too.
//
//covers:postgres 13 rows both
func TestOtherTransactionAtTheSamePosition(t *testing.T) {
	d := newDatabase(t)
	s, q := d.source(), newQueue(t)
	id, _, err := s.Acquire(t.Context(), none)
	if err != nil {
		t.Fatal(err)
	}
	s.Release(t.Context())
	d.awaitFree()
	stop := tailing(t, s, q)
	d.insert(1, 1)
	q.waitCount(t, 1)
	c := cdc.Checkpoint{Source: id, Progress: s.Progress(q.last())}
	ends(t, stop)
	d.awaitFree()
	d.insert(2, 2)
	ours := c.Progress.TxID
	for _, xid := range []string{"7", ours} { // in this order: the run that succeeds may confirm the checkpoint, and the slot is past the commit then
		want := ""
		if c.Progress.TxID = xid; xid != ours {
			want = "other_history"
		}
		s, q := d.source(), newQueue(t)
		if _, _, err := s.Acquire(t.Context(), func(context.Context, cdc.Source) (cdc.Checkpoint, bool, error) { return c, true, nil }); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx, q) }()
		select {
		case <-q.changed:
			if want != "" {
				cdctest.Violation(t, cdctest.Phantom, "xid %s: events of another history were handed on", xid)
			}
			cancel()
			<-done // Release must not run beside Run
		case err := <-done:
			if want == "" || !hasReason(err, want) {
				t.Errorf("xid %s: %v", xid, err)
			}
			cancel()
		}
		s.Release(t.Context())
		d.awaitFree()
	}
}

func hasReason(err error, reason string) bool {
	var stop *cdc.StopError
	return errors.As(err, &stop) && stop.Reason == reason
}
