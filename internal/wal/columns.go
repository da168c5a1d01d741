package wal

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// readTables reads the schemas of those tables that exist, in the forms in which the stream would bring
// them; it brings no generated columns.
func readTables(ctx context.Context, conn *pgx.Conn, names []string) (map[string]*cdc.Table, error) {
	var doc []byte
	err := conn.QueryRow(ctx, `SELECT COALESCE(jsonb_agg(t), '[]') FROM (
		SELECT n.nspname AS schema, c.relname AS name, (SELECT jsonb_agg(jsonb_build_object('name', a.attname, 'type', a.atttypid::bigint) ORDER BY a.attnum)
			FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '') AS columns
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname || '.' || c.relname = ANY($1) AND c.relkind IN ('r', 'p')) t`, names).Scan(&doc)
	if err != nil {
		return nil, fmt.Errorf("read the tables' columns: %w", err)
	}
	var found []struct {
		Schema, Name string
		Columns      []struct {
			Name string
			Type uint32
		}
	}
	if err := json.Unmarshal(doc, &found); err != nil {
		return nil, fmt.Errorf("read the tables' columns: %w", err)
	}
	binary := true
	for _, t := range found {
		for _, c := range t.Columns {
			binary = binary && hasBinaryForm(c.Type)
		}
	}
	tables := make(map[string]*cdc.Table, len(found))
	for _, t := range found {
		table := &cdc.Table{Schema: t.Schema, Name: t.Name}
		for _, c := range t.Columns {
			table.Columns = append(table.Columns, cdc.Column{Name: c.Name, Form: formOf(c.Type, binary)})
		}
		tables[table.String()] = table
	}
	return tables, nil
}

// compareWithCatalog reads the table from the catalog if rows of r lack a column that is needed. So the router knows whether the table
// still lacks it, which stops the relay, or has it by now. PostgreSQL sends the Relation again once the table is altered.
func (ss *session) compareWithCatalog(ctx context.Context, r *relation) error {
	verify, rows := ss.src.opts.Verify, *r.table
	rows.Now = nil
	if r.compared = verify == nil || reasonOf(verify(&rows)) != cdc.MissingColumn; r.compared {
		return nil
	}
	var now *cdc.Table
	err := ss.askCatalog(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		tables, err := readTables(ctx, conn, []string{r.table.String()})
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
