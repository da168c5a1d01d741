package source

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

// MySQL is the database of MySQL and MariaDB.
type MySQL struct {
	configured

	Binlog binlog.Options
}

func newMySQL(c *config.Config) (*MySQL, error) {
	tables, err := configuredTables(c, func(name string) (outbox.Name, error) { return outbox.ParseMySQLName(name, c.Database()) })
	if err != nil {
		return nil, err
	}
	for i, t := range tables.tables {
		tables.tables[i].URI = router.DefaultSource(t.Name.Schema, t.Name.Table)
	}
	s := c.Source.MySQL
	o := binlog.Options{
		DSN: s.ConnString, ServerID: s.ServerID, ID: s.ID, Tables: tables.names(),
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
		for _, t := range tables.tables {
			if !t.Foreign() {
				sum := func(f cdc.Flavor) string { return outbox.MySQLRoutineSum(f, t.Name) }
				o.Routines[t.Name.String()] = binlog.Routine{Name: outbox.MySQLRoutine(t.Name).MySQL(), Sum: sum}
			}
		}
	}
	return &MySQL{tables, o}, nil
}

// SlotPosition implements [Database].
func (m *MySQL) SlotPosition() func(ctx context.Context) (cdc.Progress, error) { return nil }

// Passed implements [Database].
func (m *MySQL) Passed(at cdc.Progress, place string) bool { return binlog.Passed(at, place) }

// ConnString implements [Database].
func (m *MySQL) ConnString(given string) (ConnString, error) {
	if given == "" {
		return m.Binlog.DSN, nil
	}
	dsn, err := config.MySQLConnString(given)
	if err != nil {
		return nil, cdc.Usage("", "the connection string of the owner (--owner-dsn or %s) %w", EnvOwner, err)
	}
	return func(context.Context) (string, error) { return dsn, nil }, nil
}

// Open connects with another connection string than the relay's.
func (m *MySQL) Open(ctx context.Context, dsn ConnString) (*binlog.Database, error) {
	o := m.Binlog
	o.DSN = dsn
	return binlog.OpenDatabase(ctx, o)
}

// Check implements [Database].
func (m *MySQL) Check(ctx context.Context, load cdc.Resumer) ([]finding.Finding, map[string]*cdc.Table) {
	return binlog.Check(ctx, m.Binlog, load)
}

// NewSource returns a reader of the binlog. Reading leaves nothing in the server, so a dry run differs only in where it
// starts.
func (m *MySQL) NewSource(o Options, log *slog.Logger, reg prometheus.Registerer) (Source, error) {
	options := m.Binlog
	options.Verify, options.StartFrom, options.Name, options.Problems = o.Verify, o.StartFrom, relayName(m.Config), o.Problems
	if o.Dry {
		options.StartFrom, options.ServerID, options.NoLock = binlog.Current, 0, true // a running relay keeps both
	}
	return binlogSource{binlog.New(options, log, reg)}, nil
}

// binlogSource adds the state to binlog.Source.
type binlogSource struct{ *binlog.Source }

var _ relay.Lagging = binlogSource{}

func (s binlogSource) State() State {
	b := s.Status()
	return State{Flavor: string(b.Flavor), Connected: b.Connected, LastTick: b.LastTick, Received: b.Received, Confirmed: b.Confirmed, Peers: b.Peers}
}
