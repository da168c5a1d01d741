package main

import (
	"context"

	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/wal"
)

// readOptions are those to read a table by SQL.
func (p *postgres) readOptions(t *outboxTable) wal.ReadOptions {
	key, at := t.keyAndTime()
	r := wal.ReadOptions{Table: t.name.String(), SQL: t.name.SQL(), Key: key, At: at}
	if !t.foreign() {
		r.TakenOut = outbox.PostgresTakenOut(t.name)
	}
	return r
}

func (p *postgres) reader(ctx context.Context, dsn connString, t *outboxTable) (tableReader, error) {
	o := p.wal.Target
	o.DSN = dsn
	r, err := wal.OpenTable(ctx, o, p.readOptions(t))
	if err != nil {
		return nil, err
	}
	return r, nil
}
