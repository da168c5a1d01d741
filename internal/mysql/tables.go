package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Caseless reports whether the server takes Outbox and outbox for one table. Then the binlog may spell a name in
// another way than the configuration: with lower_case_table_names = 1 it is in lower case.
func (v Variables) Caseless() bool {
	return v["lower_case_table_names"] != "" && v["lower_case_table_names"] != "0"
}

// ConfiguredName returns the configured name of a table that the server spells so; "": it is none of ours.
func ConfiguredName(names []string, caseless bool, table string) string {
	if slices.Contains(names, table) {
		return table
	}
	if caseless {
		if i := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, table) }); i >= 0 {
			return names[i]
		}
	}
	return ""
}

// CheckTables refuses tables that are not there, or not in an engine that commits with the binlog.
func CheckTables(ctx context.Context, db *sql.DB, names []string, caseless bool) error {
	for _, name := range names {
		schema, table, _ := strings.Cut(name, ".")
		var spelled, kind string
		var engine sql.NullString
		err := db.QueryRowContext(ctx, `SELECT CONCAT(table_schema, '.', table_name), table_type, engine FROM information_schema.tables WHERE table_schema = ? AND table_name = ? AND table_type IN ('BASE TABLE', '`+versioned+`')`,
			schema, table).Scan(&spelled, &kind, &engine)
		switch {
		case errors.Is(err, sql.ErrNoRows), err == nil && ConfiguredName([]string{name}, caseless, spelled) == "":
			return tableMissing(ctx, db, name)
		case err != nil:
			return fmt.Errorf("read table %s: %w", name, err)
		case kind == versioned:
			return cdc.ConfigError(SystemVersioned, FixSystemVersioned(schema, table), "table %s is system-versioned: the binlog holds each update of a row as one more insert", name)
		case !strings.EqualFold(engine.String, "InnoDB"):
			return cdc.ConfigError("engine", fmt.Sprintf("ALTER TABLE %s.%s ENGINE = InnoDB", QuoteName(schema), QuoteName(table)),
				"table %s is in engine %s, which does not commit and roll back with the application's transaction", name, engine.String)
		}
	}
	return nil
}

// SystemVersioned is the reason of a table of MariaDB that keeps its history.
const (
	SystemVersioned = "system_versioned"
	versioned       = "SYSTEM VERSIONED" // its type
)

// FixSystemVersioned makes it one whose inserts are rows that were inserted.
func FixSystemVersioned(schema, table string) string {
	return fmt.Sprintf("run ALTER TABLE %s.%s DROP SYSTEM VERSIONING (where SHOW CREATE TABLE lists a period, with DROP COLUMN of its columns and DROP PERIOD, and system_versioning_alter_history = KEEP), which deletes its history", QuoteName(schema), QuoteName(table))
}

// tableMissing says what is not there: the table, or its database with it.
func tableMissing(ctx context.Context, db *sql.DB, name string) error {
	schema, table, _ := strings.Cut(name, ".")
	grant := fmt.Sprintf("GRANT SELECT ON %s.%s TO %s", QuoteName(schema), QuoteName(table), Account(ctx, db))
	if err := RequireDatabase(ctx, db, schema, "make the table with `cdc-relay setup` and "+grant); err != nil {
		return err
	}
	return cdc.ConfigError("table_missing", "rename it back if it was renamed; otherwise create it with `cdc-relay setup`, "+grant+", or correct tables[].name", "table %s does not exist, or the relay's user may not see it", name)
}

// VerifyTables finds a missing column before the first row does.
func VerifyTables(ctx context.Context, db *sql.DB, names []string, caseless bool, verify func(*cdc.Table) error) error {
	if verify == nil {
		return nil
	}
	tables, err := ReadTables(ctx, db, names, caseless)
	if err != nil {
		return err
	}
	for _, name := range names {
		t := tables[name]
		if t == nil {
			return tableMissing(ctx, db, name)
		}
		if err := verify(t); err != nil {
			return err
		}
	}
	return nil
}

// RequireDatabase returns an error where there is no database of that name, or none that the user may see: no
// server says so in words of its own when a table is made in one. grant is what the fix asks for once it is there.
func RequireDatabase(ctx context.Context, db *sql.DB, name, grant string) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	var found bool
	err := db.QueryRowContext(ctx, `SELECT COUNT(*) > 0 FROM information_schema.schemata WHERE schema_name = ?
		OR @@GLOBAL.lower_case_table_names > 0 AND LOWER(schema_name) = LOWER(?)`, name, name).Scan(&found)
	if err != nil {
		return fmt.Errorf("look for database %s: %w", name, err)
	}
	if !found {
		return cdc.ConfigError("database_missing", "have an administrator run CREATE DATABASE "+QuoteName(name)+", "+grant+", or correct the database in source.mysql.dsn",
			"database %s does not exist, or the user may not see it", name)
	}
	return nil
}
