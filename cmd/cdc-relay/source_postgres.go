package main

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/admin"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/finding"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/router"
	"github.com/cdc-relay/cdc-relay/internal/wal"
)

// postgres is the database of PostgreSQL.
type postgresCommands struct {
	config *config.Config
	wal    wal.Options
	list   []outboxTable
}

func newPostgres(c *config.Config) (*postgresCommands, error) {
	tables, err := outboxTables(c, outbox.ParseName)
	if err != nil {
		return nil, err
	}
	for i := range tables {
		tables[i].uri = router.DefaultSource(c.Database(), c.Tables[i].Name)
	}
	s := c.Source.Postgres
	o := wal.Options{
		Options: postgres.Options{
			DSN: s.ConnString, Slot: s.Slot, Publication: s.Publication, Tables: tableNames(tables), WaitUntilVisible: s.WaitUntilVisible,
		},
		Conflict: c.Position.Conflict,
	}
	if s.TLS != nil {
		o.TLS = s.TLS.ClientConfig
	}
	if c.Partitions != nil {
		o.Routines = routines(tables)
	}
	return &postgresCommands{c, o, tables}, nil
}

func (p *postgresCommands) passed(at cdc.Progress, place string) bool {
	return postgres.Passed(at, place)
}

func (p *postgresCommands) slotPosition() func(ctx context.Context) (cdc.Progress, error) {
	if positionOptions(p.config).Location() != "" {
		return nil
	}
	return func(ctx context.Context) (cdc.Progress, error) {
		at, err := postgres.SlotPosition(ctx, p.wal.Options)
		return cdc.Progress{Position: at}, err
	}
}

func (p *postgresCommands) tables() []outboxTable { return p.list }

func (p *postgresCommands) connString(given string) (connString, error) {
	if given == "" {
		return p.wal.DSN, nil
	}
	if err := config.PostgresConnString(given); err != nil {
		return nil, cdc.Usage("", "the connection string of the owner (--owner-dsn or %s) %w", envOwner, err)
	}
	return func(context.Context) (string, error) { return given, nil }, nil
}

// open connects with another connection string than the relay's.
func (p *postgresCommands) open(ctx context.Context, dsn connString) (*postgres.Database, error) {
	o := p.wal.Options
	o.DSN = dsn
	return postgres.OpenDatabase(ctx, o)
}

func (p *postgresCommands) check(ctx context.Context, load cdc.Resumer) ([]finding.Finding, map[string]*cdc.Table) {
	return wal.Check(ctx, p.wal, load)
}

// newSource returns a reader of the slot, for a dry run of a temporary one, which the server drops with the connection.
func (p *postgresCommands) newSource(o sourceOptions, log *slog.Logger, reg prometheus.Registerer) (source, error) {
	if o.startFrom != "" {
		return nil, cdc.Usage("leave it out: on PostgreSQL the replication slot holds the position", "--start-from is for MySQL and MariaDB")
	}
	options := p.wal
	options.Verify, options.Temporary, options.Name, options.Problems = o.verify, o.dry, relayName(p.config), o.problems
	options.SlotAlone = positionOptions(p.config).Location() == "" && !o.dry
	return walSource{wal.New(options, log, reg)}, nil
}

// walSource adds the state to wal.Source.
type walSource struct{ *wal.Source }

func (s walSource) state() sourceState {
	w := s.Status()
	st := sourceState{flavor: "postgresql", connected: w.Connected, lastTick: w.LastTick, received: w.Received, confirmed: w.Confirmed, peers: w.Peers}
	if w.Slot.WALStatus != "" {
		st.lagBytes = &w.Slot.LagBytes
		st.slot = &admin.Slot{Status: w.Slot.WALStatus, RetainedBytes: w.Slot.RetainedBytes}
		if w.Slot.SafeBytes >= 0 {
			st.slot.SafeBytes = &w.Slot.SafeBytes
		}
	}
	return st
}
