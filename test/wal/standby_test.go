package wal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/internal/wal"
)

// A standby may get the slot from its primary, so the relay tries again; a promoted one cannot any more.
func TestStandbyWithoutTheSlot(t *testing.T) {
	primary := testenv.Postgres(t, testenv.PostgresOptions{Version: 17})
	for _, sql := range []string{"CREATE TABLE outbox (id INT PRIMARY KEY)", "CREATE PUBLICATION standby FOR TABLE outbox"} {
		testenv.Must(t, primary.Exec(t.Context(), "postgres", sql))
	}
	standby := testenv.PostgresStandby(t, primary, testenv.PostgresOptions{})
	d := &database{t: t, name: "standby"}
	s := d.sourceWith(wal.Options{Options: postgres.Options{Slot: "events", DSN: func(context.Context) (string, error) { return standby.DSN("postgres", ""), nil }}})
	_, _, err := s.Acquire(t.Context(), none)
	if _, final := errors.AsType[*cdc.StopError](err); final || err == nil || !strings.Contains(err.Error(), "is a standby") {
		t.Errorf("standby: %v, want an error that may pass", err)
	}
	testenv.Must(t, standby.Promote(t.Context()))
	_, _, err = s.Acquire(t.Context(), none)
	if cdc.ReasonOf(err) != "slot_missing" {
		t.Errorf("promoted: %v, want slot_missing", err)
	}
}

// bare is a server of its own with a table.
func bare(t *testing.T, version int) (source func(*cdc.Problems) *wal.Source, execute func(statements ...string), o postgres.Options) {
	t.Helper()
	own, d := testenv.Postgres(t, testenv.PostgresOptions{Version: version}), &database{t: t, name: "events"}
	o = postgres.Options{DSN: func(context.Context) (string, error) { return own.DSN("postgres", ""), nil }, Slot: d.name, Publication: d.name, Tables: []string{"public.outbox"}}
	source = func(p *cdc.Problems) *wal.Source { return d.sourceWith(wal.Options{Problems: p, Options: o}) }
	execute = func(statements ...string) {
		t.Helper()
		for _, sql := range statements {
			testenv.Must(t, own.Exec(t.Context(), "postgres", sql))
		}
	}
	execute("CREATE TABLE outbox (payload bytea)")
	return source, execute, o
}

// From PostgreSQL 18 on a slot is read although its publication is newer: the rows before that are left out with a warning.
func TestPublicationNewerThanItsSlot(t *testing.T) {
	source, execute, o := bare(t, 18)
	execute("SELECT pg_create_logical_replication_slot('events', 'pgoutput')", "INSERT INTO outbox VALUES ('1')", "CREATE PUBLICATION events FOR TABLE outbox")
	found, _ := wal.Check(t.Context(), wal.Options{Options: o}, none)
	s := source(nil)
	if err := start(t, s).Ended(); cdc.ReasonOf(err) != "slot_too_old" || !strings.Contains(fmt.Sprint(found), "cannot be read with its publication") {
		t.Errorf("ended with %v; check says %v", err, found)
	}
}

// A slot that waits for a standby says so, until it goes on, and is late.
func TestSlotWaitsForAStandby(t *testing.T) {
	source, execute, _ := bare(t, 17)
	execute("CREATE PUBLICATION events FOR TABLE outbox", "SELECT pg_create_logical_replication_slot('events', 'pgoutput', failover => true)", "SELECT pg_create_physical_replication_slot('away', true)",
		"ALTER SYSTEM SET synchronized_standby_slots = 'away'", "SELECT pg_reload_conf()")
	problems := cdc.NewProblems(slog.New(slog.DiscardHandler))
	s := source(problems)
	r := start(t, s)
	execute("INSERT INTO outbox VALUES ('1')")
	cdctest.Eventually(t, patience, "a problem", func() bool { return len(problems.List()) > 0 })
	if p := problems.List()[0]; !strings.Contains(p.Err.Error(), "away") || len(r.Rows()) > 0 {
		t.Errorf("%v, published %q", p.Err, r.Rows())
	}
	execute("CREATE TABLE other AS SELECT repeat('x', 1000) FROM generate_series(1, 20)")
	(&database{t: t}).awaitLag(s, true)
	execute("ALTER SYSTEM RESET synchronized_standby_slots", "SELECT pg_reload_conf()")
	r.Await(1)
	(&database{t: t}).awaitLag(s, false)
	if len(problems.List()) > 0 {
		t.Errorf("%v", problems.List())
	}
}
