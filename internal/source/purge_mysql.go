package source

import (
	"context"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/retention"
)

// Rows implements [Database].
func (m *MySQL) Rows(dsn ConnString, load cdc.Loader) retention.RowTables {
	return func(ctx context.Context) ([]retention.Rows, func(), error) {
		db, err := m.Open(ctx, dsn)
		if err != nil {
			return nil, nil, err
		}
		source := db.Source(m.Binlog)
		source.Database = m.Config.Database() // the owner's connection may have another
		var list []retention.Rows
		for _, t := range m.Purged() {
			key, at := t.keyAndTime()
			list = append(list, db.Rows(binlog.RowOptions{Table: t.Name.String(), Key: key, At: at, Source: source, Load: load}))
		}
		return list, db.Close, nil
	}
}
