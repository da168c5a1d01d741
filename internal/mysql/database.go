package mysql

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// RequireDatabase returns an error where there is no database of that name, or none that the user may see: no
// server says so in words of its own when a table is made in one.
func (d *Database) RequireDatabase(ctx context.Context, name string) error {
	return requireDatabase(ctx, d.DB, name, "grant the user its rights there")
}

func requireDatabase(ctx context.Context, db *sql.DB, name, grant string) error {
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
