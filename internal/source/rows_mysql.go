package source

import (
	"context"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// readOptions are those to read a table by SQL.
func (m *MySQL) readOptions(t *Table) binlog.ReadOptions {
	key, at := t.keyAndTime()
	r := binlog.ReadOptions{Table: t.Name.String(), Key: key, At: at}
	if !t.Foreign() {
		r.TakenOut, r.Routine, r.Spare = outbox.MySQLTakenOut(t.Name), outbox.MySQLRoutine(t.Name).MySQL(), outbox.MySQLSpare(t.Name).String()
	}
	return r
}

// Reader implements [Database].
func (m *MySQL) Reader(ctx context.Context, dsn ConnString, t *Table) (TableReader, error) {
	o := m.Binlog
	o.DSN = dsn
	r, err := binlog.OpenTable(ctx, o, m.readOptions(t))
	if err != nil {
		return nil, err
	}
	return r, nil
}
