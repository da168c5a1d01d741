package wal

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// askCatalog calls ask with a connection of its own that sees the transaction that is being read: the server sends it before others see
// what it has created, and with synchronous replication long before.
func (ss *session) askCatalog(ctx context.Context, ask func(context.Context, *pgx.Conn) error) error {
	if err := ss.gate.Wait(ctx, committed{ss.tx.commit, ss.tx.xid}); err != nil {
		return err
	}
	if err := ss.tick(ctx, time.Now()); err != nil { // the next one is after ask
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, monitorTimeout)
	defer cancel()
	conn, err := ss.connectAgain(ctx)
	if err != nil {
		return err
	}
	defer postgres.CloseConn(ctx, conn.PgConn())
	return ask(ctx, conn)
}

// compareWithCatalog reads the table from the catalog if rows of r lack a column that is needed. So the router knows whether the table
// still lacks it, which stops the relay, or has it by now. PostgreSQL sends the Relation again once the table is altered.
func (ss *session) compareWithCatalog(ctx context.Context, r *relation) error {
	verify, rows := ss.src.opts.Verify, *r.table
	rows.Now = nil
	if r.compared = verify == nil || cdc.ReasonOf(verify(&rows)) != cdc.MissingColumn; r.compared {
		return nil
	}
	var now *cdc.Table
	err := ss.askCatalog(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		tables, _, err := postgres.ReadTables(ctx, conn, ss.src.opts.Options, []string{r.table.String()})
		now = tables[r.table.String()]
		return err
	})
	if err != nil {
		return err
	}
	r.compared = true
	if now != nil && (r.table.Now == nil || !slices.Equal(r.table.Now.Columns, now.Columns)) {
		rows.Now = now
		r.table = &rows
	}
	return nil
}
