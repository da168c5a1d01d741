package testenv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
)

// standbySlot is a standby's physical slot on the primary.
const standbySlot = "standby"

// PostgresStandby starts a standby for one test that synchronizes the primary's failover slots (PostgreSQL 17 or newer). It stops
// the primary to copy its files, and starts it again. A primary can have one such standby.
func PostgresStandby(tb testing.TB, primary *PostgresServer, o PostgresOptions) *PostgresServer {
	tb.Helper()
	p, err := startPostgresStandby(starting(tb), primary, o)
	return started(tb, "standby", p, err)
}

func startPostgresStandby(ctx context.Context, primary *PostgresServer, o PostgresOptions) (_ *PostgresServer, err error) {
	if err := primary.Exec(ctx, "postgres", "SELECT pg_create_physical_replication_slot('"+standbySlot+"')"); err != nil {
		return nil, err
	}
	p := &PostgresServer{Version: primary.Version, prog: primary.prog}
	if p.daemon, err = newDaemon(ctx, "standby", "QUIT"); err != nil {
		return nil, err
	}
	if err := p.copy(ctx, primary, o); err != nil {
		return nil, errors.Join(fmt.Errorf("make a standby: %w", err), p.Close())
	}
	return p, nil
}

func (p *PostgresServer) copy(ctx context.Context, primary *PostgresServer, o PostgresOptions) error {
	if err := primary.Stop(ctx, Fast); err != nil {
		return err
	}
	if err := p.inst.run(ctx, command{path: "/bin/cp", args: []string{"-a", primary.data(), p.data()}}); err != nil {
		return err
	}
	settings := postgresDefaults(p.port.number, p.inst.dir, o.Durable)
	maps.Copy(settings, map[string]string{
		"primary_conninfo":       fmt.Sprintf("host=127.0.0.1 port=%d user=postgres dbname=postgres", primary.port.number),
		"primary_slot_name":      standbySlot,
		"sync_replication_slots": "on",
		"hot_standby_feedback":   "on",
	})
	maps.Copy(settings, o.Settings)
	if _, err := p.inst.write("data/postgresql.auto.conf", renderSettings(settings)); err != nil {
		return err
	}
	if _, err := p.inst.write("data/standby.signal", ""); err != nil {
		return err
	}
	if err := primary.Start(ctx); err != nil {
		return err
	}
	return p.Start(ctx)
}

// Promote makes a standby a primary.
func (p *PostgresServer) Promote(ctx context.Context) error {
	return p.Exec(ctx, "postgres", "SELECT pg_promote()")
}
