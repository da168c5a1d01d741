package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Candidate returns the schema of a table, "database.name", as a possible outbox, and what else the catalog says of it. An error says that
// there is none whose inserts could be read.
func (d *Database) Candidate(ctx context.Context, name string) (*cdc.Table, *cdc.Facts, error) {
	schema, table, _ := strings.Cut(name, ".")
	var kind string
	err := d.DB.QueryRowContext(ctx, `SELECT table_type FROM information_schema.tables WHERE table_schema = ? AND table_name = ?`, schema, table).Scan(&kind)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil, noTable(name)
	case err != nil:
		return nil, nil, fmt.Errorf("read table %s: %w", name, err)
	case kind == versioned:
		return nil, nil, cdc.Usage(FixSystemVersioned(schema, table), "table %s is system-versioned: the binlog holds each update of a row as one more insert", name)
	case kind != "BASE TABLE":
		return nil, nil, cdc.Usage("name the table that is inserted into", "%s is not a table but a view or the like, so inserts into it are not in the binlog", name)
	}
	tables, err := ReadTables(ctx, d.DB, []string{name}, d.vars.Caseless())
	if err != nil {
		return nil, nil, err
	}
	if tables[name] == nil { // the collation of information_schema finds it in another spelling
		return nil, nil, noTable(name)
	}
	facts, err := d.facts(ctx, schema, table)
	return tables[name], facts, err
}

// facts reads what the catalog says of a table beyond the types of its columns.
func (d *Database) facts(ctx context.Context, schema, table string) (*cdc.Facts, error) {
	f := &cdc.Facts{Columns: map[string]cdc.ColumnFacts{}}
	var column, nullable, length, byDefault, extra, index, last string
	err := eachRow(ctx, d.DB, "read the table's columns", func() {
		c := cdc.ColumnFacts{NotNull: nullable == "NO", Counter: strings.Contains(extra, "auto_increment"), Default: byDefault}
		c.Length, _ = strconv.ParseInt(length, 10, 64)
		f.Columns[column] = c
	}, []any{&column, &nullable, &length, &byDefault, &extra}, `SELECT column_name, is_nullable, COALESCE(character_maximum_length, 0),
		COALESCE(NULLIF(column_default, 'NULL'), ''), extra FROM information_schema.columns WHERE table_schema = ? AND table_name = ?`, schema, table)
	if err != nil {
		return nil, err
	}
	err = eachRow(ctx, d.DB, "read the table's indexes", func() {
		if index != last {
			f.Unique = append(f.Unique, nil)
		}
		last = index
		f.Unique[len(f.Unique)-1] = append(f.Unique[len(f.Unique)-1], column)
	}, []any{&index, &column}, `SELECT s.index_name, s.column_name FROM information_schema.statistics s WHERE s.table_schema = ? AND s.table_name = ? AND s.non_unique = 0
		AND NOT EXISTS (SELECT 1 FROM information_schema.statistics o WHERE o.table_schema = s.table_schema AND o.table_name = s.table_name
			AND o.index_name = s.index_name AND (o.column_name IS NULL OR o.sub_part IS NOT NULL))
		ORDER BY s.index_name, s.seq_in_index`, schema, table)
	if err != nil || d.vars.Flavor() != cdc.MariaDB {
		return f, err
	}
	return f, eachRow(ctx, d.DB, "read the table's checks", func() {
		c := f.Columns[column]
		c.JSON = true
		f.Columns[column] = c
	}, []any{&column}, `SELECT c.column_name FROM information_schema.columns c JOIN information_schema.check_constraints k
		ON k.constraint_schema = c.table_schema AND k.table_name = c.table_name AND LOWER(k.check_clause) = CONCAT('json_valid(`+"`', LOWER(c.column_name), '`"+`)')
		WHERE c.table_schema = ? AND c.table_name = ?`, schema, table)
}

func noTable(name string) error {
	return cdc.Usage("correct the name, or connect as a user who may see it", "table %s does not exist, or the user may not see it", name)
}
