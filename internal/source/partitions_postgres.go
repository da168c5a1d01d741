package source

import (
	"context"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/retention"
)

// routines returns the routine of each table that is ours.
func routines(tables []Table) map[string]postgres.Routine {
	names := map[string]postgres.Routine{}
	for _, t := range tables {
		if !t.Foreign() {
			names[t.Name.String()] = routineOf(t.Name)
		}
	}
	return names
}

func routineOf(table outbox.Name) postgres.Routine {
	r := postgres.Routine{Name: outbox.PostgresRoutine(table).SQL(), Body: outbox.PostgresRoutineBody(table)}
	if former, begin := outbox.FormerPostgresRoutine(table); former.SQL() != r.Name {
		r.Former, r.FormerBegin = former.SQL(), begin
	}
	return r
}

// Partitions implements [Database].
func (p *Postgres) Partitions(dsn ConnString, owner bool, load cdc.Loader) retention.Tables {
	return func(ctx context.Context) ([]retention.Table, func(), error) {
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
func (p *Postgres) maintainable(ctx context.Context, db *postgres.Database, owner bool, load cdc.Loader) ([]retention.Table, error) {
	var tables []retention.Table
	for _, t := range p.tables {
		if t.Foreign() {
			continue
		}
		routine := routineOf(t.Name)
		if owner {
			temporary := outbox.TemporaryRoutine(t.Name)
			routine = postgres.Routine{Name: temporary.SQL()}
			if err := db.Become(ctx, t.Name.String()); err != nil {
				return nil, err
			}
			if err := db.Exec(ctx, "create a temporary routine", outbox.PostgresMaintenance(t.Name, temporary).SQL); err != nil {
				return nil, err
			}
		}
		parts := db.Partitions(t.Name.String(), routine, p.WAL.Slot, p.letterSlots(db, t.Name.String()), load)
		if err := parts.Maintainable(ctx); err != nil {
			return nil, err
		}
		tables = append(tables, parts)
	}
	return tables, nil
}
