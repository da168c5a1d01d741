package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// verifyDeletes returns an error if old rows cannot be deleted.
func (r *Rows) verifyDeletes(ctx context.Context) error {
	var timed sql.NullString
	err := r.db.rows.QueryRowContext(ctx, `SELECT (SELECT LOWER(data_type) FROM information_schema.columns
		WHERE table_schema = ? AND table_name = ? AND column_name = ? AND data_type IN ('datetime', 'timestamp', 'date'))`, r.schema, r.table, r.At).Scan(&timed)
	switch {
	case err != nil:
		return fmt.Errorf("read table %s: %w", r.Table, err)
	case !timed.Valid:
		return cdc.Fixable("map created_at to a column with the time of the INSERT", "column %s of table %s is no DATETIME, TIMESTAMP or DATE, or is not visible, so it does not tell which rows are old", r.At, r.Table)
	case timed.String == localTime:
		r.zone = r.Zone
	}
	return r.failed(r.Doing(), explain(ctx, r.db.rows, "DELETE FROM "+r.sql+" WHERE FALSE"))
}

// querier is a connection, or a pool of them.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// signalled reports whether err has an SQLSTATE of those that are meant for SIGNAL, whatever number a trigger gives it.
func signalled(err error) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && string(e.SQLState[:2]) == "45"
}
