package main

import (
	"context"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/retention"
)

func (p *postgresCommands) rows(dsn connString, load cdc.Loader) retention.RowTables {
	return func(ctx context.Context) ([]retention.Rows, func(), error) {
		db, err := p.open(ctx, dsn)
		if err != nil {
			return nil, nil, err
		}
		var list []retention.Rows
		for _, t := range purgedTables(p.config, p.list) {
			key, at := t.keyAndTime()
			list = append(list, db.Rows(postgres.RowOptions{
				Table: t.name.String(), SQL: t.name.SQL(), Key: key, At: at,
				Slot: p.wal.Slot, Slots: p.letterSlots(db, t.name.String()), Load: load,
			}))
		}
		return list, func() { db.Close(context.WithoutCancel(ctx)) }, nil
	}
}
