package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// ReadTables reads the schemas of those tables that exist, in the forms in which the stream would bring
// them; it brings no generated columns.
func ReadTables(ctx context.Context, conn *pgx.Conn, names []string) (map[string]*cdc.Table, error) {
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
			binary = binary && HasBinaryForm(c.Type)
		}
	}
	tables := make(map[string]*cdc.Table, len(found))
	for _, t := range found {
		table := &cdc.Table{Schema: t.Schema, Name: t.Name}
		for _, c := range t.Columns {
			table.Columns = append(table.Columns, cdc.Column{Name: c.Name, Form: FormOf(c.Type, binary)})
		}
		tables[table.String()] = table
	}
	return tables, nil
}
