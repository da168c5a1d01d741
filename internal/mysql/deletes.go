package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
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
	return r.failed(r.Doing(), explainDelete(ctx, r.db.rows, r.sql))
}

// querier is a connection, or a pool of them.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// explainDelete asks for the plan of a DELETE, which takes the rights that the DELETE does. table is in SQL.
func explainDelete(ctx context.Context, db querier, table string) error {
	return explain(ctx, db, "DELETE FROM "+table+" WHERE FALSE")
}

// MayDelete reports whether the user may delete rows of a table, whose name is in SQL.
func (d *Database) MayDelete(ctx context.Context, table string) (bool, error) {
	err := explainDelete(ctx, d.DB, table)
	if code, _ := ErrorNumber(err); code == gomysql.ER_TABLEACCESS_DENIED_ERROR {
		return false, nil
	}
	if err != nil {
		return false, d.execError("read the rights on "+table, err)
	}
	return true, nil
}

// signalled reports whether err has an SQLSTATE of those that are meant for SIGNAL, whatever number a trigger gives it.
func signalled(err error) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && string(e.SQLState[:2]) == "45"
}
