package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-sql-driver/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// RowOptions name a table whose old rows are deleted.
type RowOptions struct {
	// Table is its name ("orders.outbox").
	Table string
	// Key is the column with the event's ID, At the one with the time.
	Key, At string
	// Zone is where the clocks were that wrote the time, if its type has no zone; nil: UTC.
	Zone *cdc.Zone
	// Source is the binlog's identity; the checkpoint that Load finds tells what is relayed.
	Source cdc.Source
	Load   cdc.Loader
}

// Rows are the rows of a table without partitions.
type Rows struct {
	db *Database
	o  RowOptions
	// sql, key and at are quoted; text is whether the key is of characters.
	sql, key, at string
	text         bool
	zone         *cdc.Zone // of the time; nil: UTC, or it has one
}

// Rows returns the rows of a table. Verify comes first.
func (d *Database) Rows(o RowOptions) *Rows {
	return &Rows{db: d, o: o, sql: quoteTable(o.Table), key: QuoteName(o.Key), at: QuoteName(o.At)}
}

// Name returns the table's name.
func (r *Rows) Name() string { return r.o.Table }

const describeRows = `SELECT
	(SELECT COUNT(*) FROM information_schema.partitions WHERE table_schema = ? AND table_name = ? AND partition_name IS NOT NULL),
	(SELECT LOWER(data_type) FROM information_schema.columns WHERE table_schema = ? AND table_name = ? AND column_name = ? AND data_type IN ('datetime', 'timestamp', 'date')),
	(SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = ? AND table_name = ? AND column_name = ? AND character_set_name IS NOT NULL),
	(SELECT COUNT(*) FROM (SELECT index_name FROM information_schema.statistics WHERE table_schema = ? AND table_name = ? AND non_unique = 0
		GROUP BY index_name HAVING COUNT(*) = 1 AND SUM(column_name = ? AND sub_part IS NULL) = 1) AS own)`

// Verify returns an error if old rows cannot be deleted, and takes a connection.
func (r *Rows) Verify(ctx context.Context) error {
	if r.db.Server.ReadOnly {
		return cdc.Fixable("point source.mysql.dsn at the primary", "old rows of %s: %s is read only", r.o.Table, r.db.Server.Address)
	}
	if err := r.db.publishes(); err != nil {
		return err
	}
	if err := r.connect(ctx); err != nil {
		return err
	}
	schema, table, _ := strings.Cut(r.o.Table, ".")
	var partitioned, text, unique int
	var timed sql.NullString
	err := r.db.rows.QueryRowContext(ctx, describeRows, schema, table, schema, table, r.o.At, schema, table, r.o.Key, schema, table, r.o.Key).
		Scan(&partitioned, &timed, &text, &unique)
	r.text = text > 0
	if timed.String == localTime {
		r.zone = r.o.Zone
	}
	switch {
	case err != nil:
		return fmt.Errorf("read table %s: %w", r.o.Table, err)
	case partitioned > 0:
		return cdc.Fixable("set partitions in place of retention.delete if they are daily ones of cdc-relay; otherwise remove retention.delete, and drop the partitions with the means of the software that made them",
			"table %s has partitions, which are dropped as a whole: its rows are not deleted", r.o.Table)
	case !timed.Valid:
		return cdc.Fixable("map created_at to a column with the time of the INSERT", "column %s of table %s is no DATETIME, TIMESTAMP or DATE, or is not visible, so it does not tell which rows are old", r.o.At, r.o.Table)
	case unique == 0:
		return cdc.Fixable("create a unique index on it", "column %s of table %s has no unique index of its own, by which old rows could be deleted", r.o.Key, r.o.Table)
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

// connect takes a connection, the same for all tables, whose DELETEs lock the rows that they delete and no gaps, and wait for no lock for long.
func (r *Rows) connect(ctx context.Context) (err error) {
	if r.db.rows != nil {
		return nil
	}
	if r.db.rows, err = r.db.DB.Conn(ctx); err != nil {
		return connectError(err, r.db.Config)
	}
	for _, setting := range []string{
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET SESSION innodb_lock_wait_timeout = 1",
		"SET SESSION lock_wait_timeout = 1", writes,
	} {
		if _, err := r.db.rows.ExecContext(ctx, setting); err != nil {
			return r.failed("prepare the connection", err)
		}
	}
	return nil
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
		"table %s: old rows are not deleted: %d, whose column %s is NULL", r.o.Table, n, r.o.Key)
}

// Old returns the keys of rows older than age.
func (r *Rows) Old(ctx context.Context, age time.Duration, limit int) ([]any, cdc.Position, error) {
	return r.read(ctx, age, fmt.Sprintf("LIMIT %d", limit))
}

// OldAfter returns the same in the order of keys, behind one.
func (r *Rows) OldAfter(ctx context.Context, age time.Duration, limit int, after any) ([]any, cdc.Position, error) {
	order := fmt.Sprintf("ORDER BY %s LIMIT %d", r.key, limit)
	if after == nil {
		return r.read(ctx, age, order)
	}
	return r.read(ctx, age, "AND "+r.key+" > ? "+order, after)
}

func (r *Rows) read(ctx context.Context, age time.Duration, rest string, args ...any) ([]any, cdc.Position, error) {
	keys, err := r.keys(ctx, fmt.Sprintf("SELECT %s FROM %s WHERE %s %s", r.key, r.sql, r.old(age), rest), args...)
	if err != nil {
		return nil, "", r.failed("read old rows", err)
	}
	behind, err := r.db.end(ctx, r.db.rows)
	if err != nil {
		return nil, "", r.failed("read the binlog's end", err)
	}
	return keys, cdc.Position(behind.String()), nil
}

// keys reads the first column. A number stays one: compared as text it would be rounded.
func (r *Rows) keys(ctx context.Context, query string, args ...any) ([]any, error) {
	rows, err := r.db.rows.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var keys []any
	for rows.Next() {
		var key any
		if err := rows.Scan(&key); err != nil {
			return nil, err
		}
		if b, ok := key.([]byte); ok && r.text {
			key = string(b) // in the collation of the column, so that its index is used
		}
		keys = append(keys, key)
	}
	return keys, rows.Err()
}

// Passed reports whether the checkpoint has passed a position.
func (r *Rows) Passed(ctx context.Context, behind cdc.Position) (bool, error) {
	noted, err := ParseSet(r.db.Server.Flavor, string(behind))
	if err != nil {
		return false, err
	}
	done := r.db.relayed(ctx, r.db.rows, r.o.Source, r.o.Load)
	return done.passed(noted), done.unknown
}

// Delete deletes the rows of these keys that are older than age. A trigger keeps rows here by an error only.
func (r *Rows) Delete(ctx context.Context, keys []any, age time.Duration) (int64, []any, error) {
	done, err := r.db.rows.ExecContext(ctx, fmt.Sprintf("DELETE FROM %s WHERE %s IN %s AND %s", r.sql, r.key, placeholders(len(keys)), r.old(age)), keys...)
	if err != nil {
		return 0, nil, r.failed("delete old rows", err)
	}
	n, err := done.RowsAffected()
	return n, nil, r.failed("delete old rows", err)
}

// signalled reports whether err has an SQLSTATE of those that are meant for SIGNAL, whatever number a trigger gives it.
func signalled(err error) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && string(e.SQLState[:2]) == "45"
}

func (r *Rows) failed(doing string, err error) error {
	code, said := ErrorNumber(err)
	switch {
	case err == nil:
		return nil
	case code == 0:
		return fmt.Errorf("table %s: %s: %w", r.o.Table, doing, err)
	case code == gomysql.ER_TABLEACCESS_DENIED_ERROR:
		return cdc.Fixable(fmt.Sprintf("run GRANT SELECT, DELETE ON %s TO %s", r.sql, AccountOf(r.db.Server.Role)), "user %s may not delete rows of %s", r.db.Server.Role, r.o.Table)
	case code == gomysql.ER_ROW_IS_REFERENCED, code == gomysql.ER_ROW_IS_REFERENCED_2:
		return cdc.Fixable("delete the rows that refer to old events, or remove that foreign key with ALTER TABLE ... DROP FOREIGN KEY", "%w: a foreign key refers to them (%s)", cdc.ErrHeld, said)
	case code == gomysql.ER_SIGNAL_EXCEPTION, signalled(err):
		return cdc.Fixable("change the trigger so that it lets old rows go", "%w: a trigger ON DELETE says %q", cdc.ErrHeld, said)
	case code == gomysql.ER_LOCK_WAIT_TIMEOUT, code == gomysql.ER_LOCK_DEADLOCK:
		return cdc.Fixable(endLockers, "table %s: %s: %w: %s", r.o.Table, doing, cdc.ErrBusy, lockHeld)
	}
	return fmt.Errorf("table %s: %s: %s: %s (%d)", r.o.Table, doing, r.db.Server.Flavor.Title(), said, code)
}
