package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-sql-driver/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// RowOptions name a table whose old rows are deleted.
type RowOptions struct {
	KeyedOptions

	// At is the column with the time.
	At string
	// Zone is where the clocks were that wrote the time, if its type has no zone; nil: UTC.
	Zone *cdc.Zone
}

// Rows are the rows of a table without partitions.
type Rows struct {
	keyed

	o    RowOptions
	at   string    // quoted
	zone *cdc.Zone // of the time; nil: UTC, or it has one
}

// Rows returns the rows of a table. Verify comes first.
func (d *Database) Rows(o RowOptions) *Rows {
	return &Rows{keyed: d.keyed(o.KeyedOptions), o: o, at: QuoteName(o.At)}
}

// Verify returns an error if old rows cannot be deleted, and takes a connection.
func (r *Rows) Verify(ctx context.Context) error {
	partitioned := cdc.Fixable("set partitions in place of retention.delete if they are daily ones of cdc-relay; otherwise remove retention.delete, and drop the partitions with the means of the software that made them",
		"table %s has partitions, which are dropped as a whole: its rows are not deleted", r.Table)
	if err := r.verify(ctx, partitioned); err != nil {
		return err
	}
	var timed sql.NullString
	err := r.db.rows.QueryRowContext(ctx, `SELECT (SELECT LOWER(data_type) FROM information_schema.columns
		WHERE table_schema = ? AND table_name = ? AND column_name = ? AND data_type IN ('datetime', 'timestamp', 'date'))`, r.schema, r.table, r.o.At).Scan(&timed)
	switch {
	case err != nil:
		return fmt.Errorf("read table %s: %w", r.Table, err)
	case !timed.Valid:
		return cdc.Fixable("map created_at to a column with the time of the INSERT", "column %s of table %s is no DATETIME, TIMESTAMP or DATE, or is not visible, so it does not tell which rows are old", r.o.At, r.Table)
	case timed.String == localTime:
		r.zone = r.o.Zone
	}
	if err := r.indexed(); err != nil {
		return err
	}
	return r.failed("delete old rows", explainDelete(ctx, r.db.rows, r.sql))
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

// old is the condition for rows older than age that can be deleted by their key.
func (r *Rows) old(age time.Duration) string { return r.aged(age) + " AND " + r.key + " IS NOT NULL" }

func (r *Rows) aged(age time.Duration) string {
	return fmt.Sprintf("%s < UTC_TIMESTAMP(6) - INTERVAL %d SECOND", r.at, int64(r.zone.Ago(age).Seconds()))
}

// Count counts the rows older than age, up to a limit.
func (r *Rows) Count(ctx context.Context, age time.Duration, limit int) (n int, err error) {
	err = r.db.rows.QueryRowContext(ctx, fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 FROM %s WHERE %s LIMIT %d) AS counted", r.sql, r.old(age), limit)).Scan(&n)
	return n, r.failed("count old rows", err)
}

// Keyless returns an error if rows older than age have no key.
func (r *Rows) Keyless(ctx context.Context, age time.Duration) error {
	var n int
	err := r.db.rows.QueryRowContext(ctx, fmt.Sprintf("SELECT COUNT(*) FROM %s WHERE %s IS NULL AND %s", r.sql, r.key, r.aged(age))).Scan(&n)
	if err != nil {
		return r.failed("count old rows without an ID", err)
	}
	if n == 0 {
		return nil
	}
	return cdc.Fixable(fmt.Sprintf("set it with UPDATE %s SET %s = ... WHERE %[2]s IS NULL, after which they are deleted, and declare the column NOT NULL with ALTER TABLE", r.sql, r.key),
		"table %s: old rows are not deleted: %d, whose column %s is NULL", r.Table, n, r.Key)
}

// Old returns the keys of rows older than age.
func (r *Rows) Old(ctx context.Context, age time.Duration, limit int) ([]cdc.RowKey, cdc.Position, error) {
	return r.read(ctx, age, fmt.Sprintf("LIMIT %d", limit))
}

// OldAfter returns the same in the order of keys, behind one.
func (r *Rows) OldAfter(ctx context.Context, age time.Duration, limit int, after any) ([]cdc.RowKey, cdc.Position, error) {
	order := fmt.Sprintf("ORDER BY %s LIMIT %d", r.key, limit)
	if after == nil {
		return r.read(ctx, age, order)
	}
	return r.read(ctx, age, "AND "+r.key+" > "+r.param+" "+order, after)
}

func (r *Rows) read(ctx context.Context, age time.Duration, rest string, args ...any) ([]cdc.RowKey, cdc.Position, error) {
	return r.find(ctx, fmt.Sprintf("SELECT %s FROM %s WHERE %s %s", r.selected(), r.sql, r.old(age), rest), args...)
}

// Delete deletes the rows of these keys that are older than age. A trigger keeps rows here by an error only.
func (r *Rows) Delete(ctx context.Context, keys []cdc.RowKey, age time.Duration) (int64, error) {
	done, err := r.db.rows.ExecContext(ctx, fmt.Sprintf("DELETE FROM %s WHERE %s AND %s", r.sql, r.among(len(keys)), r.old(age)), values(keys)...)
	if err != nil {
		return 0, r.failed("delete old rows", err)
	}
	n, err := done.RowsAffected()
	return n, r.failed("delete old rows", err)
}

// signalled reports whether err has an SQLSTATE of those that are meant for SIGNAL, whatever number a trigger gives it.
func signalled(err error) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && string(e.SQLState[:2]) == "45"
}

func (r *Rows) failed(doing string, err error) error {
	switch code, said := ErrorNumber(err); {
	case code == gomysql.ER_TABLEACCESS_DENIED_ERROR:
		return cdc.Fixable(fmt.Sprintf("run GRANT SELECT, DELETE ON %s TO %s", r.sql, AccountOf(r.db.Server.Role)), "user %s may not delete rows of %s", r.db.Server.Role, r.Table)
	case code == gomysql.ER_ROW_IS_REFERENCED, code == gomysql.ER_ROW_IS_REFERENCED_2:
		return cdc.Fixable("delete the rows that refer to old events, or remove that foreign key with ALTER TABLE ... DROP FOREIGN KEY", "%w: a foreign key refers to them (%s)", cdc.ErrHeld, said)
	case code == gomysql.ER_SIGNAL_EXCEPTION, signalled(err):
		return cdc.Fixable("change the trigger so that it lets old rows go", "%w: a trigger ON DELETE says %q", cdc.ErrHeld, said)
	}
	return r.keyed.failed(doing, err)
}
