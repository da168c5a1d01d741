package main

import (
	"context"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/retention"
)

// routines returns the routine of each table that is ours.
func routines(tables []outboxTable) map[string]postgres.Routine {
	names := map[string]postgres.Routine{}
	for _, t := range tables {
		if !t.foreign() {
			names[t.name.String()] = routineOf(t.name)
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

func (p *postgresCommands) partitions(dsn connString, owner bool, load cdc.Loader) (retention.Tables, error) {
	return func(ctx context.Context) ([]retention.Table, func(), error) {
		db, err := p.open(ctx, dsn)
		if err != nil {
			return nil, nil, err
		}
		tables, err := p.maintainable(ctx, db, owner, load)
		if err != nil {
			db.Close(context.WithoutCancel(ctx))
			return nil, nil, err
		}
		return tables, func() { db.Close(context.WithoutCancel(ctx)) }, nil
	}, nil
}

// maintainable returns the tables that are ours. An owner gets a routine that ends with the session.
func (p *postgresCommands) maintainable(ctx context.Context, db *postgres.Database, owner bool, load cdc.Loader) ([]retention.Table, error) {
	var tables []retention.Table
	for _, t := range p.list {
		if t.foreign() {
			continue
		}
		routine := routineOf(t.name)
		if owner {
			temporary := outbox.TemporaryRoutine(t.name)
			routine = postgres.Routine{Name: temporary.SQL()}
			if err := db.Become(ctx, t.name.String()); err != nil {
				return nil, err
			}
			if err := db.Exec(ctx, "create a temporary routine", outbox.PostgresMaintenance(t.name, temporary).SQL); err != nil {
				return nil, err
			}
		}
		parts := db.Partitions(t.name.String(), routine, p.wal.Slot, p.letterSlots(db, t.name.String()), load)
		if err := parts.Maintainable(ctx); err != nil {
			return nil, err
		}
		tables = append(tables, parts)
	}
	return tables, nil
}
