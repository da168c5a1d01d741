package wal

import (
	"context"
	"errors"
	"io"
	"net"
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
	if err := other.CreateDatabase(t.Context(), d.name); err != nil {
		t.Fatal(err)
	}
	var connections atomic.Int64
	var moved atomic.Bool
	addr := forward(t, func() string {
		if connections.Add(1)%2 == 0 && moved.Load() {
			return other.Addr()
		}
		return server.Addr()
	})
	s := d.sourceWith(wal.Options{Options: postgres.Options{DSN: func(context.Context) (string, error) {
		return strings.Replace(server.DSN(d.name, ""), server.Addr(), addr, 1), nil
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

// forward accepts connections and forwards each to the address that to returns.
func forward(t *testing.T, to func() string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to())
			if err != nil {
				_ = in.Close()
				continue
			}
			go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
			go func() { _, _ = io.Copy(in, out); _ = in.Close() }()
		}
	}()
	return l.Addr().String()
}
