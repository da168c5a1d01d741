package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Candidate returns the schema of a table, "database.name", as a possible outbox. An error says that there is none whose inserts could be
// read.
func (d *Database) Candidate(ctx context.Context, name string) (*cdc.Table, error) {
	schema, table, _ := strings.Cut(name, ".")
	var kind string
	err := d.DB.QueryRowContext(ctx, `SELECT table_type FROM information_schema.tables WHERE table_schema = ? AND table_name = ?`, schema, table).Scan(&kind)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, d.noTable(ctx, schema, table)
	case err != nil:
		return nil, fmt.Errorf("read table %s: %w", name, err)
	case kind == versioned:
		return nil, cdc.Usage(FixSystemVersioned(schema, table), "table %s is system-versioned: the binlog holds each update of a row as one more insert", name)
	case kind != "BASE TABLE":
		return nil, cdc.Usage("name the table that is inserted into", "%s is not a table but a view or the like, so inserts into it are not in the binlog", name)
	}
	tables, err := ReadTables(ctx, d.DB, []string{name}, d.vars.Caseless())
	if err != nil {
		return nil, err
	}
	if tables[name] == nil { // the collation of information_schema finds it in another spelling
		return nil, d.noTable(ctx, schema, table)
	}
	return tables[name], nil
}

// noTable names tables that could be meant.
func (d *Database) noTable(ctx context.Context, schema, table string) error {
	fix := "correct the name, or connect as a user who may see it"
	var like []string
	var name string
	err := eachRow(ctx, d.DB, "look for tables", func() { like = append(like, name) }, []any{&name},
		`SELECT CONCAT(table_schema, '.', table_name) FROM information_schema.tables WHERE table_type = 'BASE TABLE'
		AND table_schema NOT IN ('mysql', 'sys', 'performance_schema') AND (LOWER(table_name) = LOWER(?) OR LOWER(table_name) LIKE '%outbox%' AND table_schema = ?)
		ORDER BY LOWER(table_name) <> LOWER(?), table_schema <> ?, 1 LIMIT 3`, table, schema, table, schema)
	if err == nil && len(like) > 0 {
		fix = "did you mean " + strings.Join(like, " or ") + "?"
	}
	return cdc.Usage(fix, "table %s.%s does not exist, or the user may not see it", schema, table)
}
