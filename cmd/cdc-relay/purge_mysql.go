package main

import (
	"context"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/retention"
)

func (m *mysql) rows(dsn connString, load cdc.Loader) retention.RowTables {
	return func(ctx context.Context) ([]retention.Rows, func(), error) {
		db, err := m.open(ctx, dsn)
		if err != nil {
			return nil, nil, err
		}
		source := db.Source(m.binlog)
		source.Database = m.config.Database() // the owner's connection may have another
		var list []retention.Rows
		for _, t := range purgedTables(m.config, m.list) {
			key, at := t.keyAndTime()
			list = append(list, db.Rows(binlog.RowOptions{Table: t.name.String(), Key: key, At: at, Source: source, Load: load}))
		}
		return list, db.Close, nil
	}
}
