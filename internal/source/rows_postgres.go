package source

import (
	"context"

	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// readOptions are those to read a table by SQL.
func (p *Postgres) readOptions(t *Table) postgres.ReadOptions {
	key, at := t.keyAndTime()
	r := postgres.ReadOptions{Table: t.Name.String(), SQL: t.Name.SQL(), Key: key, At: at}
	if !t.Foreign() {
		r.TakenOut = outbox.PostgresTakenOut(t.Name)
	}
	return r
}

// Reader implements [Database].
func (p *Postgres) Reader(ctx context.Context, dsn ConnString, t *Table) (TableReader, error) {
	o := p.WAL.Options
	o.DSN = dsn
	r, err := postgres.OpenTable(ctx, o, p.readOptions(t))
	if err != nil {
		return nil, err
	}
	return r, nil
}
