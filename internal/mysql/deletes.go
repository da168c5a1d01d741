package mysql

import (
	"context"
	"database/sql"
	"errors"

	"github.com/go-sql-driver/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// verifyDeletes returns an error if old rows cannot be deleted.
func (r *Rows) verifyDeletes(ctx context.Context, timed string) error {
	switch timed {
	case "":
		return cdc.Fixable("map created_at to a column with the time of the INSERT", "column %s of table %s is no DATETIME, TIMESTAMP or DATE, or is not visible, so it does not tell which rows are old", r.At, r.Table)
	case localTime:
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
