package cdctest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// Postgres is a PostgreSQL database with public.outbox, a publication and a slot, both named like the database.
type Postgres struct {
	Server *testenv.PostgresServer
	// Proxy, if not nil, is between the relay and the server; writers and checkers do not use it.
	Proxy *testenv.ProxyServer
	// PayloadColumn is the payload column, for tests that rename it.
	PayloadColumn string

	onSQL

	name string
}

var _ Database = (*Postgres)(nil)

// OpenPostgres returns an existing database with public.outbox, publication and slot.
func OpenPostgres(server *testenv.PostgresServer, name string) *Postgres {
	p := &Postgres{Server: server, name: name, PayloadColumn: "payload"}
	p.onSQL = onSQL{
		open: func() (*sql.DB, error) { return sql.Open("pgx", p.Server.DSN(name, "")) },
		events: func() string {
			return `SELECT event_id, coalesce(topic, ''), aggregate_id, aggregate_type, event_type, content_type,
				occurred_at, headers::text, ` + pgx.Identifier{p.PayloadColumn}.Sanitize() + ` FROM public.outbox`
		},
	}
	return p
}

// NewPostgres creates the database, with options of CREATE DATABASE. The name must also be valid for a slot: lower-case letters, digits, underscores.
func NewPostgres(ctx context.Context, server *testenv.PostgresServer, name string, options ...string) (*Postgres, error) {
	p := OpenPostgres(server, name)
	if err := server.Exec(ctx, "postgres", "CREATE DATABASE "+name+" "+strings.Join(options, " ")); err != nil {
		return nil, fmt.Errorf("create database %s: %w", name, err)
	}
	table := p.Table()
	steps := outbox.PostgresSetup(outbox.SetupOptions{
		Make: []outbox.TableOptions{{Name: table, From: time.Now().Add(-24 * time.Hour), Ahead: 2}},
		Read: []outbox.Name{table}, Publication: name, Slot: name, Failover: server.Version >= 17,
	})
	err := p.setUp(ctx, "CREATE TABLE seqs (key text PRIMARY KEY, seq int NOT NULL)", steps)
	return p, err
}

// PostgresPartition returns the name of the partition of public.outbox for the day (UTC) of at.
func PostgresPartition(at time.Time) string {
	return "cdc_relay.public_outbox_" + at.UTC().Format("20060102")
}

// Name returns the name of database, publication and slot.
func (p *Postgres) Name() string { return p.name }

// Table returns the name of the outbox table.
func (p *Postgres) Table() outbox.Name { return outbox.Name{Schema: "public", Table: "outbox"} }

// ThroughProxy sets Proxy.
func (p *Postgres) ThroughProxy(tb testing.TB) *testenv.ProxyServer {
	tb.Helper()
	p.Proxy = testenv.Proxy(tb, p.Server.Addr())
	return p.Proxy
}

// RecordSource returns the default ce_source.
func (p *Postgres) RecordSource() string { return "/" + p.name + "/public.outbox" }

// Config returns the setting source.
func (p *Postgres) Config() map[string]any {
	dsn := p.Server.DSN(p.name, "")
	if p.Proxy != nil {
		if u, err := url.Parse(dsn); err == nil {
			u.Host = p.Proxy.Addr()
			dsn = u.String()
		}
	}
	return map[string]any{"postgres": map[string]any{"dsn": dsn, "slot": p.name, "publication": p.name}}
}

// Checkpoints returns all places; the slot alone is enough.
func (p *Postgres) Checkpoints() []Checkpoint { return []Checkpoint{SlotOnly, InFile, InRedis} }

// Away implements [Database].
func (p *Postgres) Away(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return strings.HasPrefix(pg.Code, "57P") || strings.HasPrefix(pg.Code, "08")
	}
	return true
}

// Stop stops the server.
func (p *Postgres) Stop(ctx context.Context, how Stop) error {
	if how == Crash {
		return p.Server.Stop(ctx, testenv.Immediate)
	}
	return p.Server.Stop(ctx, testenv.Fast)
}

// Start starts the server.
func (p *Postgres) Start(ctx context.Context) error { return p.Server.Start(ctx) }

// CutLeader implements [Database].
func (p *Postgres) CutLeader(ctx context.Context) error {
	return p.Exec(ctx, "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = $1", p.name)
}

// LoseLog drops the slot.
func (p *Postgres) LoseLog(ctx context.Context) error {
	return p.Exec(ctx, "SELECT pg_drop_replication_slot($1)", p.name)
}

// DropActiveSlot drops the slot while a relay uses it, before the relay can reconnect. With create it recreates the slot
// at the end of the WAL.
func (p *Postgres) DropActiveSlot(ctx context.Context, create bool) error {
	again := ""
	if create {
		again = "PERFORM pg_create_logical_replication_slot('" + p.name + "', 'pgoutput');"
	}
	return Await(ctx, "the slot to be dropped", func(ctx context.Context) (bool, error) {
		// In one round trip, so that the relay cannot acquire the slot in between.
		err := p.Exec(ctx, `DO $$ BEGIN
			PERFORM pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots WHERE slot_name = '`+p.name+`';
			PERFORM pg_drop_replication_slot('`+p.name+`');
			`+again+`
		END $$`)
		if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "55006" { // object_in_use: the relay acquired it again
			return false, nil
		}
		return err == nil, err
	})
}

// InsertMany implements [Database] with COPY, whose rows share an LSN.
func (p *Postgres) InsertMany(ctx context.Context, prefix string, n, size int) error {
	columns := []string{"event_id", "aggregate_id", "aggregate_type", "event_type", "content_type", "occurred_at", p.PayloadColumn}
	conn, err := pgx.Connect(ctx, p.Server.DSN(p.name, ""))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.CopyFrom(ctx, pgx.Identifier{"public", "outbox"}, columns, pgx.CopyFromSlice(n, func(i int) ([]any, error) {
		e := NewEvent(prefix+strconv.Itoa(i%100), i/100+1, size)
		return []any{[16]byte(e.ID), e.Key, e.AggregateType, e.Type, e.ContentType, e.OccurredAt, e.Payload}, nil
	}))
	return err
}
