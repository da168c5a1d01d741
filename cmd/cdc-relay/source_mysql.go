package main

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/finding"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/relay"
	"github.com/cdc-relay/cdc-relay/internal/router"
)

// mysql is the database of MySQL and MariaDB.
type mysql struct {
	config *config.Config
	binlog binlog.Options
	list   []outboxTable
}

func newMySQL(c *config.Config) (*mysql, error) {
	tables, err := outboxTables(c, func(name string) (outbox.Name, error) { return outbox.ParseMySQLName(name, c.Database()) })
	if err != nil {
		return nil, err
	}
	for i, t := range tables {
		tables[i].uri = router.DefaultSource(t.name.Schema, t.name.Table)
	}
	s := c.Source.MySQL
	o := binlog.Options{
		DSN: s.ConnString, ServerID: s.ServerID, ID: s.ID, Tables: tableNames(tables),
		UnsafeSync: s.UnsafeSyncBinlog, WaitUntilVisible: s.WaitUntilVisible,
	}
	if s.Flavor != config.FlavorAuto {
		o.Flavor = s.Flavor
	}
	if s.TLS != nil {
		o.TLS = s.TLS.ClientConfig
	}
	if c.Partitions != nil {
		o.Routines = map[string]binlog.Routine{}
		for _, t := range tables {
			if !t.foreign() {
				sum := func(f cdc.Flavor) string { return outbox.MySQLRoutineSum(f, t.name) }
				o.Routines[t.name.String()] = binlog.Routine{Name: outbox.MySQLRoutine(t.name).MySQL(), Sum: sum}
			}
		}
	}
	return &mysql{c, o, tables}, nil
}

func (m *mysql) slotPosition() func(ctx context.Context) (cdc.Progress, error) { return nil }

func (m *mysql) passed(at cdc.Progress, place string) bool { return binlog.Passed(at, place) }

func (m *mysql) tables() []outboxTable { return m.list }

func (m *mysql) connString(given string) (connString, error) {
	if given == "" {
		return m.binlog.DSN, nil
	}
	dsn, err := config.MySQLConnString(given)
	if err != nil {
		return nil, cdc.Usage("", "the connection string of the owner (--owner-dsn or %s) %w", envOwner, err)
	}
	return func(context.Context) (string, error) { return dsn, nil }, nil
}

// open connects with another connection string than the relay's.
func (m *mysql) open(ctx context.Context, dsn connString) (*binlog.Database, error) {
	o := m.binlog
	o.DSN = dsn
	return binlog.OpenDatabase(ctx, o)
}

func (m *mysql) check(ctx context.Context, load cdc.Resumer) ([]finding.Finding, map[string]*cdc.Table) {
	return binlog.Check(ctx, m.binlog, load)
}

// newSource returns a reader of the binlog. Reading leaves nothing in the server, so a dry run differs only in where it
// starts.
func (m *mysql) newSource(o sourceOptions, log *slog.Logger, reg prometheus.Registerer) (source, error) {
	options := m.binlog
	options.Verify, options.StartFrom, options.Name, options.Problems = o.verify, o.startFrom, relayName(m.config), o.problems
	if o.dry {
		options.StartFrom, options.ServerID, options.NoLock = binlog.Current, 0, true // a running relay keeps both
	}
	return binlogSource{binlog.New(options, log, reg)}, nil
}

// binlogSource adds the state to binlog.Source.
type binlogSource struct{ *binlog.Source }

var _ relay.Lagging = binlogSource{}

func (s binlogSource) state() sourceState {
	b := s.Status()
	return sourceState{flavor: string(b.Flavor), connected: b.Connected, lastTick: b.LastTick, received: b.Received, confirmed: b.Confirmed, peers: b.Peers}
}
