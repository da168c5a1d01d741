package source

import (
	"context"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/retention"
)

// Partitions implements [Database].
func (m *MySQL) Partitions(dsn ConnString, owner bool, load cdc.Loader) retention.Tables {
	return func(ctx context.Context) ([]retention.Table, func(), error) {
		return m.maintainable(ctx, dsn, owner, load)
	}
}

// maintainable returns the tables that are ours. An owner gets procedures that are dropped again.
func (m *MySQL) maintainable(ctx context.Context, dsn ConnString, owner bool, load cdc.Loader) ([]retention.Table, func(), error) {
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
	source := db.Source(m.Binlog)
	source.Database = m.Config.Database() // the owner's connection may have another
	var tables []retention.Table
	for _, t := range m.tables {
		if t.Foreign() {
			continue
		}
		o := binlog.PartitionOptions{
			Table: t.Name.String(), Routine: outbox.MySQLRoutine(t.Name).MySQL(), Lock: outbox.MySQLPartitionLock(t.Name),
			Source: source, Load: load,
		}
		if owner {
			routine := outbox.MySQLOnceRoutine(t.Name)
			o.Routine, made = routine.MySQL(), append(made, routine)
			if err := db.Exec(ctx, "create a procedure for this run", outbox.Texts(outbox.MySQLMaintenance(db.Server.Flavor, t.Name, routine))...); err != nil {
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
