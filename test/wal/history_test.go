package wal

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/internal/wal"
	"github.com/cdc-relay/cdc-relay/test/conformance"
)

// If the server does not send the checkpoint's last commit again, the checkpoint is of another history. The relay must not
// confirm its position, neither before nor after it notices.
//
//covers:postgres 13 state both
func TestOtherHistoryConfirmsNothing(t *testing.T) {
	d := newDatabase(t)
	s := d.source()
	id, from, err := s.Acquire(t.Context(), none)
	testenv.Must(t, err)
	s.Release(t.Context())
	d.awaitFree()
	d.insert(1, 1)
	d.exec("CREATE TABLE more (x int)") // WAL after the commit
	end := d.text(walEnd)
	c := cdc.Checkpoint{Source: id, Progress: cdc.Progress{Position: cdc.Position(end), Commit: cdc.Position(end), TxID: "7"}}
	if err := conformance.Start(t, d.source(), newQueue(t), conformance.From(c)).Ended(); cdc.ReasonOf(err) != "other_history" {
		t.Fatalf("the relay continued, and ended with %v", err)
	}
	confirmed := d.text("SELECT lpad(upper(to_hex((confirmed_flush_lsn - '0/0')::bigint)), 16, '0') FROM pg_replication_slots WHERE slot_name = $1", d.name)
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
	s := d.source()
	acquire(t, s)
	s.Release(t.Context())
	d.awaitFree()
	r := start(t, s)
	d.insert(1, 1)
	r.Await(1)
	c := r.Checkpoint()
	r.MustStop()
	d.awaitFree()
	d.insert(2, 2)
	ours := c.Progress.TxID
	for _, xid := range []string{"7", ours} { // in this order: the run that succeeds may confirm the checkpoint, and the slot is past the commit then
		want := ""
		if c.Progress.TxID = xid; xid != ours {
			want = "other_history"
		}
		s := d.source()
		r := conformance.Start(t, s, newQueue(t), conformance.From(c))
		select {
		case <-r.Changed:
			if want != "" {
				cdctest.Violation(t, cdctest.Phantom, "xid %s: events of another history were handed on", xid)
			}
			r.MustStop() // Release must not run beside Run
		case <-r.Done:
			if err := r.Ended(); want == "" || cdc.ReasonOf(err) != want {
				t.Errorf("xid %s: %v", xid, err)
			}
		}
		s.Release(t.Context())
		d.awaitFree()
	}
}

// walEnd is the end of the WAL as a position has it.
const walEnd = "SELECT lpad(upper(to_hex((pg_current_wal_flush_lsn() - '0/0')::bigint)), 16, '0')"

// A server whose disk was put back to an earlier state has the slot, the timeline and the identity of before. Once its WAL is past the
// checkpoint, which had moved on while the outbox was idle, only a row from before that tells of another history. A row of a table that the
// checkpoint does not know tells of none.
//
//covers:postgres 13 rows both
func TestRestoredServerIsPastTheCheckpoint(t *testing.T) {
	shared := server
	defer func() { server = shared }()
	server = testenv.Postgres(t, testenv.PostgresOptions{})
	d, c := newDatabase(t), cdc.Checkpoint{}
	must := func(errs ...error) {
		t.Helper()
		testenv.Must(t, errors.Join(errs...))
		d.conn = d.connect("")
	}
	run := func(tables ...string) error { // until the position is at the end of the WAL
		end := cdc.Position(d.text(walEnd))
		q, last := newQueue(t), c
		s := d.sourceWith(wal.Options{Options: postgres.Options{Tables: tables}})
		ctx, cancel := context.WithCancel(t.Context())
		q.Confirm = func(seq uint64) {
			p := s.Progress(seq)
			if last.Progress.Commit == "" || p.Position < end { // the next heartbeat waits for that
				s.Confirm(seq)
			}
			if p.Position >= end && p.Position > last.Progress.Position && p.Commit+last.Progress.Commit != "" {
				c.Progress = p
				cancel()
			}
		}
		id, _, err := s.Acquire(ctx, func(context.Context, cdc.Source) (cdc.Checkpoint, bool, error) {
			return last, last.Progress.Position != "", nil
		})
		if c.Source = id; err != nil {
			return err
		}
		return s.Run(ctx, q)
	}
	d.exec("CREATE TABLE noise AS SELECT * FROM outbox")
	d.exec("ALTER PUBLICATION " + d.name + " ADD TABLE noise")
	noise := func(n int) { d.exec(strings.Replace(insertRows, "outbox", "noise", 1), 1, n) }
	d.insert(1, 1)
	data := filepath.Join(filepath.Dir(server.LogPath()), "data")
	// The slot is behind the event.
	must(run(), server.Stop(t.Context(), testenv.Fast), exec.CommandContext(t.Context(), "cp", "-a", data, data+".before").Run(), server.Start(t.Context()))
	noise(5000) // more WAL than the next event has
	must(run())
	ours := c
	noise(1)
	must(run("public.outbox", "public.noise"), server.Stop(t.Context(), testenv.Fast), os.RemoveAll(data), os.Rename(data+".before", data), server.Start(t.Context()))
	d.insert(2, 2)
	noise(20_000)
	c = ours
	if err := run(); cdc.ReasonOf(err) != "other_history" || c.Progress != ours.Progress {
		cdctest.Violation(t, cdctest.Lost, "the run ended at %s, past %s, with %v", c.Progress.Position, ours.Progress.Position, err)
	}
}
