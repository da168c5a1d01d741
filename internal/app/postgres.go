package app

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/backfill"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cleanup"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/router"
	"github.com/cdc-relay/cdc-relay/internal/wal"
)

// Postgres is the database of PostgreSQL.
type Postgres struct {
	configured

	WAL wal.Options
}

func newPostgres(c *config.Config) *Postgres {
	tables := configuredTables(c)
	for i := range tables.tables {
		tables.tables[i].Layout.TextID = true
		tables.tables[i].Source = router.DefaultSource(c.Database(), c.Tables[i].Name)
	}
	s := c.Source.Postgres
	o := wal.Options{
		Options: postgres.Options{
			DSN: s.ConnString, Slot: s.Slot, Publication: s.Publication, Tables: tables.names(), Maintained: tables.Needed().Maintain, Needs: Router(c, tables.tables).Needs, WaitUntilVisible: s.WaitUntilVisible,
		},
	}
	if s.TLS != nil {
		o.TLS = s.TLS.ClientConfig
	}
	return &Postgres{tables, o}
}

func (p *Postgres) server(ctx context.Context, dsn ConnString) (server, error) {
	db, err := p.Open(ctx, dsn)
	if err != nil {
		return server{}, err
	}
	defer db.Close(context.WithoutCancel(ctx))
	id, err := db.Source(ctx, "")
	return server{id.SystemID, db.Server.Started, db.Server.Address, db.Server.Standby}, err
}

// Display implements [Database].
func (p *Postgres) Display(at cdc.Position) string { return postgres.DisplayPosition(at) }

// Passed implements [Database].
func (p *Postgres) Passed(at cdc.Progress, place string) bool {
	return postgres.Passed(at, place)
}

// SlotPosition implements [Database].
func (p *Postgres) SlotPosition() func(ctx context.Context) (cdc.Progress, error) {
	if !p.slotAlone() {
		return nil
	}
	return func(ctx context.Context) (cdc.Progress, error) {
		at, err := postgres.SlotPosition(ctx, p.WAL.Options)
		return cdc.Progress{Position: at}, err
	}
}

// Open connects with another connection string than the relay's.
func (p *Postgres) Open(ctx context.Context, dsn ConnString) (*postgres.Database, error) {
	o := p.WAL.Options
	o.DSN = dsn
	return postgres.OpenDatabase(ctx, o)
}

// Check implements [Database].
func (p *Postgres) Check(ctx context.Context, load cdc.Resumer) ([]cdc.Finding, map[string]*cdc.Table) {
	return wal.Check(ctx, p.WAL, load)
}

// NewSource returns a reader of the slot, for a dry run of a temporary one, which the server drops with the connection.
func (p *Postgres) NewSource(o SourceOptions, log *slog.Logger, reg prometheus.Registerer) Source {
	options := p.WAL
	options.Verify, options.Temporary, options.Problems = o.Verify, o.Dry, o.Problems
	options.SlotAlone, options.PassAlteration = p.slotAlone() && !o.Dry, o.PassAlteration
	return wal.New(options, log, reg)
}

// slotAlone reports whether only the slot has the position.
func (p *Postgres) slotAlone() bool {
	c := p.Config
	return c.Delivery != config.ExactlyOnce && c.Checkpoint.Redis == nil && c.Checkpoint.File == ""
}

// readOptions are those to read a table by SQL.
func (p *Postgres) readOptions(t *Table) postgres.ReadOptions {
	key, at := t.keyAndTime()
	r := postgres.ReadOptions{Table: t.Name.String(), SQL: t.Name.SQL(), Key: key, IDPrefix: t.Layout.IDPrefix(), At: at, OrderBy: t.Config.OrderBy, Counted: t.Foreign(), Zone: t.Layout.Zone}
	if !t.Foreign() {
		r.TakenOut = outbox.PostgresTakenOut(t.Name)
	}
	return r
}

// Reader implements [Database].
func (p *Postgres) Reader(ctx context.Context, dsn ConnString, t *Table) (TableReader, error) {
	o := p.WAL.Options
	o.DSN = dsn
	r, err := postgres.OpenTable(ctx, o, p.readOptions(t))
	if err != nil {
		return nil, err
	}
	return r, nil
}

// NewRepair implements [Database].
func (p *Postgres) NewRepair(verify func(*cdc.Table) error, read ConnString, where string, log *slog.Logger) backfill.Database {
	o := wal.RepairOptions{Options: p.WAL}
	o.Verify, o.ReadDSN, o.Where = verify, read, where
	for i := range p.tables {
		o.Read = append(o.Read, p.readOptions(&p.tables[i]))
	}
	return wal.NewRepair(o, log)
}

// Partitions implements [Database].
func (p *Postgres) Partitions(dsn ConnString, owner bool, load cdc.Loader) cleanup.PartitionTables {
	return func(ctx context.Context) ([]cleanup.Partitions, func(), error) {
		db, err := p.Open(ctx, dsn)
		if err != nil {
			return nil, nil, err
		}
		tables, err := p.maintainable(ctx, db, owner, load)
		if err != nil {
			db.Close(context.WithoutCancel(ctx))
			return nil, nil, err
		}
		return tables, func() { db.Close(context.WithoutCancel(ctx)) }, nil
	}
}

// maintainable returns the tables that are ours. An owner gets a routine that ends with the session.
func (p *Postgres) maintainable(ctx context.Context, db *postgres.Database, owner bool, load cdc.Loader) ([]cleanup.Partitions, error) {
	var tables []cleanup.Partitions
	for _, t := range p.tables {
		if t.Foreign() {
			continue
		}
		routine := outbox.PostgresRoutine(t.Name)
		if owner {
			routine = outbox.TemporaryRoutine(t.Name)
			if err := db.Become(ctx, t.Name.String()); err != nil {
				return nil, err
			}
			if err := db.Exec(ctx, "create a temporary function", outbox.PostgresMaintenance(t.Name, routine).SQL); err != nil {
				return nil, err
			}
		}
		parts := db.Partitions(t.Name, routine, p.WAL.Slot, load)
		if err := parts.Maintainable(ctx); err != nil {
			return nil, err
		}
		tables = append(tables, parts)
	}
	return tables, nil
}

// Rows implements [Database].
func (p *Postgres) Rows(dsn ConnString, actions []cdc.RowAction) cleanup.Tables {
	return func(ctx context.Context, load cdc.Loader) ([]cleanup.Rows, func(), error) {
		db, err := p.Open(ctx, dsn)
		if err != nil {
			return nil, nil, err
		}
		var list []cleanup.Rows
		for i := range actions {
			list = append(list, db.Rows(postgres.RowOptions{RowAction: actions[i], Slot: p.WAL.Slot, Load: load}))
		}
		return list, func() { db.Close(context.WithoutCancel(ctx)) }, nil
	}
}
