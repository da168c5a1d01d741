package wal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// verifyOther is called once for each relation r that has neither the OID nor the name of a configured table. It returns nil if r is
// another table: the catalog has it, or a table of its name, or it lacks columns of an outbox. A table that was dropped and has these
// columns may have been the outbox under another name.
func (ss *session) verifyOther(ctx context.Context, id uint32, r *relation) error {
	if r.other = !ss.src.resembles(r.table); r.other {
		r.types, r.table.Columns = nil, nil // there may be a million such tables, and nothing reads their columns again
		return nil
	}
	err := ss.askCatalog(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
			WHERE relkind IN ('r', 'p') AND (c.oid = $1 OR nspname = $2 AND relname = $3))`, id, r.table.Schema, r.table.Name).Scan(&r.other)
	})
	if err != nil {
		return fmt.Errorf("look for table %s: %w", r.table, err)
	}
	if !r.other {
		name, ours := pgx.Identifier{r.table.Schema, r.table.Name}.Sanitize(), pgx.Identifier(strings.SplitN(ss.src.opts.Tables[0], ".", 2)).Sanitize()
		return cdc.Stop(cdc.ClassRuntime, "dropped_table", fmt.Errorf(
			"transaction %d at %s has rows of table %s (OID %d), which was dropped since: it had the columns of an outbox, so they may be events", ss.tx.xid, ss.tx.commit, r.table, id),
			fmt.Sprintf("run CREATE TABLE %s () if they are no events; if they are, run CREATE TABLE %s (LIKE %s) and list it under tables; then start the relay again", name, name, ours))
	}
	return nil
}

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

// resembles reports whether a table has the columns of a configured one, whatever their types: only those of configured tables are known.
func (s *Source) resembles(t *cdc.Table) bool {
	columns := slices.Clone(t.Columns)
	for i := range columns {
		if columns[i].Form == cdc.FormOpaque {
			columns[i].Form = cdc.FormText
		}
	}
	return s.opts.Verify == nil || slices.ContainsFunc(s.opts.Tables, func(name string) bool {
		twin := cdc.Table{Columns: columns}
		twin.Schema, twin.Name, _ = strings.Cut(name, ".")
		return s.opts.Verify(&twin) == nil
	})
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
