package main

import (
	"context"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/retention"
)

func (m *mysql) partitions(dsn connString, owner bool, load cdc.Loader) (retention.Tables, error) {
	return func(ctx context.Context) ([]retention.Table, func(), error) {
		return m.maintainable(ctx, dsn, owner, load)
	}, nil
}

// maintainable returns the tables that are ours. An owner gets procedures that are dropped again.
func (m *mysql) maintainable(ctx context.Context, dsn connString, owner bool, load cdc.Loader) ([]retention.Table, func(), error) {
	db, err := m.open(ctx, dsn)
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
	source := db.Source(m.binlog)
	source.Database = m.config.Database() // the owner's connection may have another
	var tables []retention.Table
	for _, t := range m.list {
		if t.foreign() {
			continue
		}
		o := binlog.PartitionOptions{
			Table: t.name.String(), Routine: outbox.MySQLRoutine(t.name).MySQL(), Lock: outbox.MySQLPartitionLock(t.name),
			Source: source, Load: load,
		}
		if owner {
			routine := outbox.MySQLOnceRoutine(t.name)
			o.Routine, made = routine.MySQL(), append(made, routine)
			if err := db.Exec(ctx, "create a procedure for this run", texts(outbox.MySQLMaintenance(db.Server.Flavor, t.name, routine))...); err != nil {
				closeAll()
				return nil, nil, err
			}
		}
		parts := db.Partitions(o)
		if err := parts.Maintainable(ctx); err != nil {
			closeAll()
			return nil, nil, err
		}
		tables = append(tables, parts)
	}
	return tables, closeAll, nil
}
