package source

import (
	"context"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/retention"
)

// Rows implements [Database].
func (p *Postgres) Rows(dsn ConnString, load cdc.Loader) retention.RowTables {
	return func(ctx context.Context) ([]retention.Rows, func(), error) {
		db, err := p.Open(ctx, dsn)
		if err != nil {
			return nil, nil, err
		}
		var list []retention.Rows
		for _, t := range p.Purged() {
			key, at := t.keyAndTime()
			list = append(list, db.Rows(postgres.RowOptions{
				Table: t.Name.String(), SQL: t.Name.SQL(), Key: key, At: at,
				Slot: p.WAL.Slot, Slots: p.letterSlots(db, t.Name.String()), Load: load,
			}))
		}
		return list, func() { db.Close(context.WithoutCancel(ctx)) }, nil
	}
}
