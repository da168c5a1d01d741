package main

import (
	"context"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
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

// grantDelete grants the relay's user DELETE on tables whose old rows it deletes. It ignores an error of the grant: the owner may
// lack the right, and check reports the missing one.
func (s *mysqlSetup) grantDelete(ctx context.Context, db *binlog.Database, dsn connString) error {
	var lacks []outboxTable
	for _, t := range purgedTables(s.config, s.list) {
		may, err := db.MayDelete(ctx, t.name.MySQL())
		if err != nil {
			return err
		}
		if !may {
			lacks = append(lacks, t)
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	owner, err := s.open(ctx, dsn)
	if err != nil {
		return err
	}
	defer owner.Close()
	for _, t := range lacks {
		_ = owner.Exec(ctx, "grant DELETE on "+t.name.String(), outbox.MySQLDeleteGrant(t.name, db.Server.Role).SQL)
	}
	return nil
}
