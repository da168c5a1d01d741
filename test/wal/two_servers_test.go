package wal

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/internal/wal"
)

// An address that leads to different servers is refused, because the slot of one says nothing about the other.
func TestConnectionsToTwoServersAreRefused(t *testing.T) {
	d := newDatabase(t)
	other := testenv.Postgres(t, testenv.PostgresOptions{})
	testenv.Must(t, other.CreateDatabase(t.Context(), d.name))
	var connections atomic.Int64
	var moved atomic.Bool
	s := d.sourceWith(wal.Options{Options: postgres.Options{DSN: func(context.Context) (string, error) {
		if connections.Add(1)%2 == 0 && moved.Load() {
			return other.DSN(d.name, ""), nil
		}
		return server.DSN(d.name, ""), nil
	}}})
	moved.Store(true)
	_, _, err := s.Acquire(t.Context(), none)
	var stop *cdc.StopError
	if err == nil || errors.As(err, &stop) || !strings.Contains(cdc.Explain(err), "different servers. Fix: name the primary") {
		t.Fatalf("Acquire: %v", err)
	}
	moved.Store(false)
	if _, _, err = s.Acquire(t.Context(), none); err != nil {
		t.Error(err)
	}
	s.Release(t.Context())
}
