package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

const describeDeletes = `SELECT has_table_privilege(c.oid, 'DELETE') AND has_table_privilege(c.oid, 'SELECT'), coalesce(` + timeType + `, '')
	FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
	LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = $2 AND NOT a.attisdropped LEFT JOIN pg_type t ON t.oid = a.atttypid
	WHERE nspname || '.' || relname = $1`

// verifyDeletes returns an error if old rows cannot be deleted.
func (r *Rows) verifyDeletes(ctx context.Context) error {
	var may bool
	var timed string
	err := r.db.Conn.QueryRow(ctx, describeDeletes, r.Table, r.At).Scan(&may, &timed)
	switch {
	case err != nil:
		return fmt.Errorf("read table %s: %w", r.Table, err)
	case timed == "":
		return cdc.Fixable("map created_at to a column with the time of the INSERT", "column %s of table %s is no date and no timestamp, so it does not tell which rows are old", r.At, r.Table)
	case !may:
		return cdc.Fixable(fmt.Sprintf("run `cdc-relay setup` with the owner's connection string, or GRANT SELECT, DELETE ON %s TO %s", r.SQL, pgx.Identifier{r.db.Server.Role}.Sanitize()),
			"role %q %w delete rows of %s", r.db.Server.Role, cdc.ErrMayNot, r.Table)
	case timed == localTime:
		r.zone = r.Zone
	}
	return nil
}

// heldByKey says which foreign key keeps rows.
func heldByKey(doing string, pg *pgconn.PgError) error {
	of := pgx.Identifier{pg.SchemaName, pg.TableName}.Sanitize()
	return cdc.Fixable(fmt.Sprintf("delete the rows of %s that refer to old events, or run ALTER TABLE %[1]s DROP CONSTRAINT %s", of, pgx.Identifier{pg.ConstraintName}.Sanitize()),
		"%s: %w: foreign key %s of table %s.%s (%s)", doing, cdc.ErrHeld, pg.ConstraintName, pg.SchemaName, pg.TableName, pg.Message)
}

// notDeleted tells what keeps rows from other errors.
func (r *Rows) notDeleted(doing string, pg *pgconn.PgError) error {
	doing = "table " + r.Table + ": " + doing
	switch {
	case (pg.Code == stateForeignKeyViolation || pg.Code == stateRestrictViolation) && pg.ConstraintName != "":
		return heldByKey(doing, pg)
	case pg.Code == stateQueryCanceled:
		return cdc.Fixable(fmt.Sprintf("create an index on %s", r.at), "%s: PostgreSQL was not done in time", doing)
	case pg.Code == stateRaised, pg.Where != "" && !slices.Contains([]string{"08", "40", "53", "57", "58", "XX"}, pg.Code[:2]): // in a function, and not because of the server's state
		return cdc.Fixable("change the trigger's function so that it lets old rows go", "%s: %w: a trigger ON DELETE says %q (SQLSTATE %s)", doing, cdc.ErrHeld, pg.Message, pg.Code)
	}
	return fmt.Errorf("%s: PostgreSQL: %w", doing, pg)
}
