package main

import (
	"context"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// readOptions are those to read a table by SQL.
func (m *mysql) readOptions(t *outboxTable) binlog.ReadOptions {
	key, at := t.keyAndTime()
	r := binlog.ReadOptions{Table: t.name.String(), Key: key, At: at}
	if !t.foreign() {
		r.TakenOut, r.Routine, r.Spare = outbox.MySQLTakenOut(t.name), outbox.MySQLRoutine(t.name).MySQL(), outbox.MySQLSpare(t.name).String()
	}
	return r
}

func (m *mysql) reader(ctx context.Context, dsn connString, t *outboxTable) (tableReader, error) {
	o := m.binlog
	o.DSN = dsn
	r, err := binlog.OpenTable(ctx, o, m.readOptions(t))
	if err != nil {
		return nil, err
	}
	return r, nil
}
