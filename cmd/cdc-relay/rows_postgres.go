package main

import (
	"context"

	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// readOptions are those to read a table by SQL.
func (p *postgresCommands) readOptions(t *outboxTable) postgres.ReadOptions {
	key, at := t.keyAndTime()
	r := postgres.ReadOptions{Table: t.name.String(), SQL: t.name.SQL(), Key: key, At: at}
	if !t.foreign() {
		r.TakenOut = outbox.PostgresTakenOut(t.name)
	}
	return r
}

func (p *postgresCommands) reader(ctx context.Context, dsn connString, t *outboxTable) (tableReader, error) {
	o := p.wal.Options
	o.DSN = dsn
	r, err := postgres.OpenTable(ctx, o, p.readOptions(t))
	if err != nil {
		return nil, err
	}
	return r, nil
}
