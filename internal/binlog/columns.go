package binlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// readTables reads the schemas of those tables that exist, in the forms in which the binlog would bring them.
func readTables(ctx context.Context, db querier, names []string) (map[string]*cdc.Table, error) {
	tables := map[string]*cdc.Table{}
	if len(names) == 0 {
		return tables, nil
	}
	args := make([]any, len(names))
	for i, name := range names {
		args[i] = name
	}
	found, err := db.QueryContext(ctx, `SELECT table_schema, table_name, column_name, data_type, COALESCE(character_octet_length, 0), COALESCE(character_set_name, '')
		FROM information_schema.columns WHERE CONCAT(table_schema, '.', table_name) IN (?`+strings.Repeat(", ?", len(args)-1)+`)
		ORDER BY table_schema, table_name, ordinal_position`, args...)
	if err != nil {
		return nil, fmt.Errorf("read the tables' columns: %w", err)
	}
	defer func() { _ = found.Close() }()
	for found.Next() {
		var schema, table, column, kind, set string
		var length uint64
		if err := found.Scan(&schema, &table, &column, &kind, &length, &set); err != nil {
			return nil, fmt.Errorf("read the tables' columns: %w", err)
		}
		t := tables[schema+"."+table]
		if t == nil {
			t = &cdc.Table{Schema: schema, Name: table}
			tables[t.String()] = t
		}
		t.Columns = append(t.Columns, cdc.Column{Name: column, Form: foreign(formOf(strings.ToLower(kind), length), set)})
	}
	if err := found.Err(); err != nil {
		return nil, fmt.Errorf("read the tables' columns: %w", err)
	}
	return tables, nil
}

// compareWithCatalog reads the table from the catalog if rows of s lack a column that is needed. So the router knows whether the table
// still lacks it, which stops the relay, or has it by now. Once the table is altered its table maps have another id.
func (ss *session) compareWithCatalog(ctx context.Context, s *schema, id uint64) error {
	if s.compared && (s.table.Now == nil || s.id == id) {
		return nil
	}
	verify, rows := ss.src.opts.Verify, *s.table
	rows.Now = nil
	if s.compared = verify == nil || reasonOf(verify(&rows)) != cdc.MissingColumn; s.compared {
		return nil
	}
	now, err := ss.src.tableNow(ctx, s.table.String())
	if stop, final := errors.AsType[*cdc.StopError](err); final {
		return stop
	}
	if err != nil {
		return cdc.Fixable("see why the database does not answer", "read the columns of %s: %w", s.table, err)
	}
	s.compared, s.id = true, id
	if now != nil && (s.table.Now == nil || !slices.Equal(s.table.Now.Columns, now.Columns)) {
		rows.Now = now
		s.table = &rows
	}
	return nil
}

// tableNow reads a table by its configured name; nil: it does not exist.
func (s *Source) tableNow(ctx context.Context, name string) (*cdc.Table, error) {
	db, _, err := connectSQL(ctx, &s.opts)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	tables, err := readConfigured(ctx, db, []string{name}, s.caseless)
	return tables[name], err
}

// foreign is [cdc.FormForeign] for a column whose character set is not known here.
func foreign(form cdc.Form, set string) cdc.Form {
	if set != "" && charsetOf(set) == charsetUnknown {
		return cdc.FormForeign
	}
	return form
}

func formOf(kind string, length uint64) cdc.Form {
	switch kind {
	case "binary", "varbinary":
		if length == uuidSize {
			return cdc.FormUUID
		}
		return cdc.FormBytes
	case "uuid", "inet6": // of MariaDB; the binlog tells them from BINARY as little as inet4
		return cdc.FormUUID
	case "tinyblob", "blob", "mediumblob", "longblob", "vector", "inet4", "geometry", "point", "linestring", "polygon",
		"multipoint", "multilinestring", "multipolygon", "geometrycollection", "geomcollection":
		return cdc.FormBytes
	case "datetime", "timestamp":
		return cdc.FormTimestampText
	}
	return cdc.FormText
}

// readCharsets reads what each collation's character set means here.
func readCharsets(ctx context.Context, db *sql.DB, f cdc.Flavor) (map[uint64]charset, error) {
	from := "collations"
	if f == cdc.MariaDB { // whose newer collations have an id for each character set
		from = "collation_character_set_applicability"
	}
	found, err := db.QueryContext(ctx, `SELECT id, character_set_name FROM information_schema.`+from+` WHERE id IS NOT NULL AND character_set_name IS NOT NULL`)
	if err != nil {
		return nil, fmt.Errorf("read the character sets: %w", err)
	}
	defer func() { _ = found.Close() }()
	charsets := map[uint64]charset{}
	for found.Next() {
		var id uint64
		var name string
		if err := found.Scan(&id, &name); err != nil {
			return nil, fmt.Errorf("read the character sets: %w", err)
		}
		charsets[id] = charsetOf(name)
	}
	if err := found.Err(); err != nil {
		return nil, fmt.Errorf("read the character sets: %w", err)
	}
	return charsets, nil
}

func charsetOf(name string) charset {
	switch name {
	case "utf8mb4", "utf8mb3", "utf8", "ascii":
		return charsetUTF8
	case "binary":
		return charsetBinary
	case "latin1":
		return charsetLatin1
	}
	return charsetUnknown
}
