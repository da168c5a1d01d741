package app

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/backfill"
	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cleanup"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/router"
)

// MySQL is the database of MySQL and MariaDB.
type MySQL struct {
	configured

	Binlog binlog.Options
}

func newMySQL(c *config.Config) *MySQL {
	tables := configuredTables(c)
	for i, t := range tables.tables {
		tables.tables[i].Source = router.DefaultSource(t.Name.Schema, t.Name.Table)
	}
	s := c.Source.MySQL
	o := binlog.Options{
		Options: mysql.Options{
			DSN: s.ConnString, ID: s.ID, Tables: tables.names(), Maintained: tables.Needed().Maintain,
			UnsafeSync: s.UnsafeSyncBinlog, WaitUntilVisible: s.WaitUntilVisible,
		},
		HarmlessTables: s.HarmlessTables,
	}
	if s.TLS != nil {
		o.TLS = s.TLS.ClientConfig
	}
	return &MySQL{tables, o}
}

func (m *MySQL) server(ctx context.Context, dsn ConnString) (server, error) {
	db, err := m.Open(ctx, dsn)
	if err != nil {
		return server{}, err
	}
	defer db.Close()
	return server{"", db.Server.ID, db.Server.Address, db.Replica(ctx)}, nil
}

// SlotPosition implements [Database].
func (m *MySQL) SlotPosition() func(ctx context.Context) (cdc.Progress, error) { return nil }

// Display implements [Database].
func (m *MySQL) Display(p cdc.Position) string { return string(p) }

// Passed implements [Database].
func (m *MySQL) Passed(at cdc.Progress, place string) bool { return mysql.Passed(at, place) }

// Open connects with another connection string than the relay's.
func (m *MySQL) Open(ctx context.Context, dsn ConnString) (*mysql.Database, error) {
	o := m.Binlog.Options
	o.DSN = dsn
	return mysql.OpenDatabase(ctx, o)
}

// Check implements [Database].
func (m *MySQL) Check(ctx context.Context, load cdc.Resumer) ([]cdc.Finding, map[string]*cdc.Table) {
	return binlog.Check(ctx, m.Binlog, load)
}

// NewSource returns a reader of the binlog. Reading leaves nothing in the server, so a dry run differs only in where it
// starts.
func (m *MySQL) NewSource(o SourceOptions, log *slog.Logger, reg prometheus.Registerer) Source {
	options := m.Binlog
	options.Verify, options.Problems = o.Verify, o.Problems
	if o.Dry {
		options.FromNow, options.NoLock = true, true // a running relay keeps the lock
	}
	return binlog.New(options, log, reg)
}

// readOptions are those to read a table by SQL.
func (m *MySQL) readOptions(t *Table) mysql.ReadOptions {
	key, at := t.keyAndTime()
	r := mysql.ReadOptions{Table: t.Name.String(), Key: key, IDPrefix: t.Layout.IDPrefix(), At: at, OrderBy: t.Config.OrderBy, Counted: t.Foreign(), Zone: t.Layout.Zone}
	if !t.Foreign() {
		r.TakenOut, r.Routine, r.Spare = outbox.MySQLTakenOut(t.Name), outbox.MySQLRoutine(t.Name).MySQL(), outbox.MySQLSpare(t.Name).String()
	}
	return r
}

// Reader implements [Database].
func (m *MySQL) Reader(ctx context.Context, dsn ConnString, t *Table) (TableReader, error) {
	o := m.Binlog.Options
	o.DSN = dsn
	r, err := mysql.OpenTable(ctx, o, m.readOptions(t))
	if err != nil {
		return nil, err
	}
	return r, nil
}

// NewRepair implements [Database].
func (m *MySQL) NewRepair(verify func(*cdc.Table) error, read ConnString, where string, log *slog.Logger) backfill.Database {
	o := binlog.RepairOptions{Options: m.Binlog}
	o.Verify, o.ReadDSN, o.Where = verify, read, where
	for i := range m.tables {
		o.Read = append(o.Read, m.readOptions(&m.tables[i]))
	}
	return binlog.NewRepair(o, log)
}

// Partitions implements [Database].
func (m *MySQL) Partitions(dsn ConnString, owner bool, load cdc.Loader) cleanup.PartitionTables {
	return func(ctx context.Context) ([]cleanup.Partitions, func(), error) {
		return m.maintainable(ctx, dsn, owner, load)
	}
}

// maintainable returns the tables that are ours. An owner gets procedures that are dropped again.
func (m *MySQL) maintainable(ctx context.Context, dsn ConnString, owner bool, load cdc.Loader) ([]cleanup.Partitions, func(), error) {
	db, err := m.Open(ctx, dsn)
	if err != nil {
		return nil, nil, err
	}
	var made []outbox.Name
	closeAll := func() {
		for _, routine := range made {
			_ = db.Exec(context.WithoutCancel(ctx), "drop the procedure", "DROP PROCEDURE IF EXISTS "+routine.MySQL()) // the next run replaces it
		}
		db.Close()
	}
	source := db.Source(m.Binlog.Options)
	source.Database = m.Config.Database() // the owner's connection may have another
	var tables []cleanup.Partitions
	for _, t := range m.tables {
		if t.Foreign() {
			continue
		}
		routine := outbox.MySQLRoutine(t.Name)
		if owner {
			routine = outbox.MySQLOnceRoutine(t.Name)
		}
		parts := db.Partitions(t.Name, routine, source, load)
		err := parts.Maintainable(ctx)
		if err == nil && owner {
			err = parts.Lock(ctx) // whoever holds it may run the procedure
		}
		if err == nil && owner {
			made = append(made, routine)
			err = db.Exec(ctx, "create a procedure for this run", outbox.Texts(outbox.MySQLMaintenance(db.Server.Flavor, t.Name, routine))...)
		}
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		tables = append(tables, parts)
	}
	return tables, closeAll, nil
}

// Rows implements [Database].
func (m *MySQL) Rows(dsn ConnString, actions []cdc.RowAction) cleanup.Tables {
	return func(ctx context.Context, load cdc.Loader) ([]cleanup.Rows, func(), error) {
		db, err := m.Open(ctx, dsn)
		if err != nil {
			return nil, nil, err
		}
		source := db.Source(m.Binlog.Options)
		source.Database = m.Config.Database() // the owner's connection may have another
		var list []cleanup.Rows
		for i := range actions {
			list = append(list, db.Rows(mysql.RowOptions{RowAction: actions[i], Source: source, Load: load}))
		}
		return list, db.Close, nil
	}
}
