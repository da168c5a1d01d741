package mysql

import (
	"context"
	"database/sql"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// ReadTables reads the schemas of those configured tables that exist, in the forms in which the binlog would bring them. They have
// their configured names.
func ReadTables(ctx context.Context, db querier, names []string, caseless bool) (map[string]*cdc.Table, error) {
	tables := map[string]*cdc.Table{}
	if len(names) == 0 {
		return tables, nil
	}
	args := make([]any, len(names))
	for i, name := range names {
		args[i] = name
	}
	var schema, table, column, kind, set string
	var length uint64
	err := eachRow(ctx, db, "read the tables' columns", func() {
		name := ConfiguredName(names, caseless, schema+"."+table)
		if name == "" {
			return
		}
		t := tables[name]
		if t == nil {
			t = &cdc.Table{}
			t.Schema, t.Name, _ = strings.Cut(name, ".")
			tables[name] = t
		}
		t.Columns = append(t.Columns, columnOf(column, strings.ToLower(kind), length, set))
	}, []any{&schema, &table, &column, &kind, &length, &set}, `SELECT table_schema, table_name, column_name, data_type, COALESCE(character_octet_length, 0), COALESCE(character_set_name, '')
		FROM information_schema.columns WHERE CONCAT(table_schema, '.', table_name) `+among("?", len(args))+`
		ORDER BY table_schema, table_name, ordinal_position`, args...)
	if err != nil {
		return nil, err // not some of the columns
	}
	return tables, nil
}

// localTime is the type of date and time of day without a zone.
const localTime = "datetime"

// columnOf describes a column as the binlog would. Its character set is "" if it is none of text.
func columnOf(name, kind string, length uint64, set string) cdc.Column {
	c := cdc.Column{Name: name}
	switch kind {
	case "binary", "varbinary":
		c.Form, c.Type = cdc.FormBytes, cdc.TypeBytes
		if length == UUIDSize {
			c.Form, c.Type = cdc.FormUUID, cdc.TypeUUID
		}
	case "uuid", "inet6": // of MariaDB; the binlog tells them from BINARY as little as inet4
		c.Form, c.Type = cdc.FormUUID, cdc.TypeUUID
	case "tinyblob", "blob", "mediumblob", "longblob", "vector", "inet4", "geometry", "point", "linestring", "polygon",
		"multipoint", "multilinestring", "multipolygon", "geometrycollection", "geomcollection":
		c.Form, c.Type = cdc.FormBytes, cdc.TypeBytes
	case localTime:
		c.Form, c.Type = cdc.FormTimestampText, cdc.TypeLocalTime
	case "timestamp":
		c.Form, c.Type = cdc.FormTimestampText, cdc.TypeTime
	case "json": // MariaDB's is text
		c.Form, c.Type = cdc.FormMySQLJSON, cdc.TypeJSON
	case "tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit":
		c.Type = cdc.TypeInteger
	case "decimal":
		c.Type = cdc.TypeDecimal
	case "float", "double":
		c.Type = cdc.TypeFloat
	}
	if set != "" {
		c.Type = cdc.TypeText
		if charsetOf(set) == CharsetUnknown {
			c.Form = cdc.FormForeign
		}
	}
	return c
}

// ReadCharsets reads what each collation's character set means here.
func ReadCharsets(ctx context.Context, db *sql.DB, f cdc.Flavor) (map[uint64]Charset, error) {
	from := "collations"
	if f == cdc.MariaDB { // whose newer collations have an id for each character set
		from = "collation_character_set_applicability"
	}
	charsets := map[uint64]Charset{}
	var id uint64
	var name string
	return charsets, eachRow(ctx, db, "read the character sets", func() { charsets[id] = charsetOf(name) }, []any{&id, &name},
		`SELECT id, character_set_name FROM information_schema.`+from+` WHERE id IS NOT NULL AND character_set_name IS NOT NULL`)
}

func charsetOf(name string) Charset {
	switch name {
	case "utf8mb4", "utf8mb3", "utf8", "ascii":
		return CharsetUTF8
	case "binary":
		return CharsetBinary
	case "latin1":
		return CharsetLatin1
	}
	return CharsetUnknown
}

// Charset is what becomes of a text column's bytes.
type Charset uint8

// The character sets that are told apart.
const (
	CharsetUnknown Charset = iota
	CharsetUTF8            // as they are: utf8mb4, utf8mb3, ascii
	CharsetBinary
	CharsetLatin1
)

// UUIDSize is the length of a column that is taken for a UUID when it is asked for as text.
const UUIDSize = 16
