package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// ReadTables reads the schemas of those tables that exist, in the forms in which the stream would bring
// them, and reports whether it would be binary. It brings generated columns only if the publication has them.
func ReadTables(ctx context.Context, conn *pgx.Conn, o Options, names []string) (tables map[string]*cdc.Table, binary bool, err error) {
	var doc []byte
	err = conn.QueryRow(ctx, `SELECT COALESCE(jsonb_agg(t), '[]') FROM (
		SELECT n.nspname AS schema, c.relname AS name, (SELECT jsonb_agg(jsonb_build_object('name', a.attname, 'type', a.atttypid::bigint, 'sender', `+senderOfColumn+`) ORDER BY a.attnum)
			FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND `+publishable+`) AS columns
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname || '.' || c.relname = ANY($2) AND c.relkind IN ('r', 'p')) t`, o.Publication, names).Scan(&doc)
	if err != nil {
		return nil, false, fmt.Errorf("read the tables' columns: %w", err)
	}
	var found []struct {
		Schema, Name string
		Columns      []catalogColumn
	}
	if err := json.Unmarshal(doc, &found); err != nil {
		return nil, false, fmt.Errorf("read the tables' columns: %w", err)
	}
	types := Types{}
	binary = true
	for _, t := range found {
		binary = !needText(o, t.Schema+"."+t.Name, t.Columns, types) && binary
	}
	tables = make(map[string]*cdc.Table, len(found))
	for _, t := range found {
		table := &cdc.Table{Schema: t.Schema, Name: t.Name}
		for _, c := range t.Columns {
			table.Columns = append(table.Columns, types.Column(c.Name, c.Type, binary))
		}
		tables[table.String()] = table
	}
	return tables, binary, nil
}

// publishable is whether publication $1 can have column a of table c. A generated one is published from PostgreSQL 18 on, if it is stored
// and the publication asks for it, by name or for all.
const publishable = `(a.attgenerated = '' OR a.attgenerated = 's' AND EXISTS (SELECT FROM pg_publication gp
	LEFT JOIN pg_publication_rel gr ON gr.prpubid = gp.oid AND gr.prrelid = c.oid
	WHERE gp.pubname = $1 AND COALESCE(NULLIF(to_jsonb(gr) -> 'prattrs', 'null') @> to_jsonb(a.attnum), to_jsonb(gp) ->> 'pubgencols' = 's')))`

// catalogColumn is a column as the catalog describes it.
type catalogColumn struct {
	Name   string
	Type   uint32
	Sender string
	// Omitted is whether the publication leaves it out.
	Omitted bool
	// Generated is whether no publication like this one has it.
	Generated bool
}

// needText adds the types of a table's columns, and reports whether a published one that is needed has no binary form that is known.
func needText(o Options, table string, columns []catalogColumn, types Types) bool {
	for _, c := range columns {
		types.add(c.Type, c.Sender)
	}
	return slices.ContainsFunc(columns, func(c catalogColumn) bool {
		return !c.Omitted && !c.Generated && !types.HasBinaryForm(c.Type) && o.Needed(table, c.Name)
	})
}
