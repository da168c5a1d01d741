package postgres

import (
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// verifyDeletes returns an error if old rows cannot be deleted.
func (r *Rows) verifyDeletes(d *described) error {
	switch {
	case d.timed == "":
		return cdc.Fixable("map created_at to a column with the time of the INSERT", "column %s of table %s is no date and no timestamp, so it does not tell which rows are old", r.At, r.Table)
	case !d.reads || !d.deletes:
		return cdc.Fixable(fmt.Sprintf("run `cdc-relay setup` with the owner's connection string, or GRANT SELECT, DELETE ON %s TO %s", r.SQL, pgx.Identifier{r.db.Server.Role}.Sanitize()),
			"role %q %w delete rows of %s", r.db.Server.Role, cdc.ErrMayNot, r.Table)
	case d.timed == localTime:
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
