package wal

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/internal/wal"
)

// A standby may get the slot from its primary, so the relay tries again; a promoted one cannot any more.
func TestStandbyWithoutTheSlot(t *testing.T) {
	primary := testenv.Postgres(t, testenv.PostgresOptions{Version: 17})
	for _, sql := range []string{"CREATE TABLE outbox (id INT PRIMARY KEY)", "CREATE PUBLICATION standby FOR TABLE outbox"} {
		if err := primary.Exec(t.Context(), "postgres", sql); err != nil {
			t.Fatal(err)
		}
	}
	standby := testenv.PostgresStandby(t, primary, testenv.PostgresOptions{})
	d := &database{t: t, name: "standby"}
	s := d.sourceWith(wal.Options{Options: postgres.Options{Slot: "events", DSN: func(context.Context) (string, error) { return standby.DSN("postgres", ""), nil }}})
	_, _, err := s.Acquire(t.Context(), none)
	if _, final := errors.AsType[*cdc.StopError](err); final || err == nil || !strings.Contains(err.Error(), "is a standby") {
		t.Errorf("standby: %v, want an error that may pass", err)
	}
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, _, err = s.Acquire(t.Context(), none)
	if stop, final := errors.AsType[*cdc.StopError](err); !final || stop.Reason != "slot_missing" {
		t.Errorf("promoted: %v, want slot_missing", err)
	}
}
