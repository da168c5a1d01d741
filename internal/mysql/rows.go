package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"unicode/utf8"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// RowOptions name a table whose rows are deleted or marked by their key once they are published.
type RowOptions struct {
	cdc.RowAction

	// Source is the binlog's identity; the checkpoint that Load finds tells what is relayed.
	Source cdc.Source
	Load   cdc.Loader
}

// Rows are the rows of such a table.
type Rows struct {
	RowOptions

	db *Database
	// schema and table are its name, and sql, key and at are quoted.
	schema, table, sql, key, at string
	// kind is the key's type and unique its index. shown selects it as records have it.
	kind, unique string
	shown        cell
	zone         *cdc.Zone // of the time; nil: UTC, or it has one
	// read is the index by which pending rows are found; "": none. Rows are locked by it: a poller, which finds them in the same way, locks
	// first their entries in it and then the rows, and in another order the two would wait for each other. By the key's index they are
	// updated: by another one the update would wait for rows beside them.
	read string
}

// Rows returns the rows of a table. Verify comes first.
func (d *Database) Rows(o RowOptions) *Rows {
	schema, table, _ := strings.Cut(o.Table, ".")
	return &Rows{RowOptions: o, db: d, schema: schema, table: table, sql: quoteTable(o.Table), key: QuoteName(o.Key), at: QuoteName(o.At)}
}

const describeRows = `SELECT
	(SELECT COUNT(*) FROM information_schema.partitions WHERE table_schema = ? AND table_name = ? AND partition_name IS NOT NULL),
	(SELECT COALESCE(MIN(index_name), '') FROM (SELECT index_name FROM information_schema.statistics WHERE table_schema = ? AND table_name = ? AND non_unique = 0
		GROUP BY index_name HAVING COUNT(*) = 1 AND SUM(column_name = ? AND sub_part IS NULL) = 1) AS own),
	COALESCE(LOWER(data_type), ''), COALESCE(character_octet_length, 0), COALESCE(character_set_name, ''), COALESCE(numeric_scale, 0),
	COALESCE((SELECT LOWER(data_type) FROM information_schema.columns WHERE table_schema = ? AND table_name = ? AND column_name = ? AND data_type IN ('datetime', 'timestamp', 'date')), '')
	FROM (SELECT 1) AS one LEFT JOIN information_schema.columns ON table_schema = ? AND table_name = ? AND column_name = ?`

// Verify returns an error if rows cannot be deleted or marked, and takes a connection.
func (r *Rows) Verify(ctx context.Context) error {
	if r.db.Server.ReadOnly {
		return cdc.Fixable("point source.mysql.dsn at the primary", "rows of %s: %s is read only", r.Table, r.db.Server.Address)
	}
	if err := r.db.publishes(); err != nil {
		return err
	}
	if err := r.connect(ctx); err != nil {
		return err
	}
	var parts int
	var set, scale, timed string
	var length uint64
	err := r.db.rows.QueryRowContext(ctx, describeRows, r.schema, r.table, r.schema, r.table, r.Key, r.schema, r.table, r.At, r.schema, r.table, r.Key).
		Scan(&parts, &r.unique, &r.kind, &length, &set, &scale, &timed)
	switch {
	case err != nil:
		return fmt.Errorf("read table %s: %w", r.Table, err)
	case parts > 0:
		return r.Partitioned(r.Table)
	}
	r.shown = cellOf(r.kind, scale, columnOf(r.Key, r.kind, length, set))
	if r.Marks() {
		err = r.verifyMarks(ctx)
	} else {
		err = r.verifyDeletes(ctx, timed)
	}
	if err == nil && r.unique == "" {
		err = cdc.NoUniqueIndex(r.Key, r.Table)
	}
	return err
}

// connect takes a connection, the same for all tables, that locks the rows that it writes and no gaps, and waits for no lock for long.
func (r *Rows) connect(ctx context.Context) (err error) {
	if r.db.rows != nil {
		return nil
	}
	if r.db.rows, err = r.db.DB.Conn(ctx); err != nil {
		return connectError(err, r.db.Config)
	}
	limit := map[cdc.Flavor]string{cdc.MySQL: "max_execution_time = 50000", cdc.MariaDB: "max_statement_time = 50"}[r.db.Server.Flavor]
	// The server ends a long read before the client gives up on it: it would go on with each one, and the next would begin beside it.
	for _, setting := range []string{"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", writes, "SET SESSION innodb_lock_wait_timeout = 1, lock_wait_timeout = 1, " + limit} {
		if _, err := r.db.rows.ExecContext(ctx, setting); err != nil {
			return r.failed("prepare the connection", err)
		}
	}
	return nil
}

// due is the condition of the rows that are deleted or marked.
func (r *Rows) due() string {
	if r.Marks() {
		return "(" + r.Pending + "\n)" // the condition may end with a comment
	}
	return fmt.Sprintf("%s < UTC_TIMESTAMP(6) - INTERVAL %d SECOND", r.at, int64(r.zone.Ago(r.OlderThan).Seconds()))
}

// Due returns the keys of committed rows that are due, at most limit, and a position behind the transactions that wrote them: it is read
// after the rows.
func (r *Rows) Due(ctx context.Context, limit int) ([]cdc.RowKey, cdc.Position, error) {
	query := fmt.Sprintf("SELECT %s FROM %s WHERE %s AND %s IS NOT NULL LIMIT %d", r.selected(), r.sql, r.due(), r.key, limit)
	keys, err := r.keys(ctx, r.db.rows, query)
	if err != nil {
		return nil, "", r.failed("read rows", err)
	}
	behind, err := r.db.end(ctx, r.db.rows)
	if err != nil {
		return nil, "", r.failed("read the binlog's end", err)
	}
	if r.Marks() && len(keys) > 0 {
		if r.read, err = indexOf(ctx, r.db.rows, query); err != nil {
			return nil, "", r.failed("read pending rows", err)
		}
	}
	return keys, cdc.Position(behind.String()), nil
}

// selected are the columns that keys reads.
func (r *Rows) selected() string { return r.key + ", " + r.shown.sql }

// keys reads keys. A number stays one: compared as text it would be rounded. Text is compared in the collation of the column, so that its
// index is used.
func (r *Rows) keys(ctx context.Context, db querier, query string, args ...any) (keys []cdc.RowKey, err error) {
	var key any
	var shown sql.RawBytes
	err = scanEach(ctx, db, func() {
		if b, ok := key.([]byte); ok && !r.shown.hex {
			key = string(b)
		}
		keys = append(keys, cdc.NewRowKey(r.IDPrefix, r.id(shown), key))
	}, []any{&key, &shown}, query, args...)
	return keys, err
}

// id is the ID as events and dead letters have it: "" where it cannot be read.
func (r *Rows) id(shown []byte) string {
	value, err := r.shown.append(nil, shown)
	if err == nil {
		value, err = r.shown.form.AppendText(nil, value)
	}
	if err != nil || !utf8.Valid(value) {
		return ""
	}
	return string(value)
}

// Passed reports whether the checkpoint has passed a position.
func (r *Rows) Passed(ctx context.Context, behind cdc.Position) (bool, error) {
	noted, err := ParseSet(r.db.Server.Flavor, string(behind))
	if err != nil {
		return false, err
	}
	done := r.db.relayed(ctx, r.db.rows, r.Source, r.Load)
	return done.passed(noted), done.unknown
}

// these is the condition for the rows of n keys that are still due.
func (r *Rows) these(n int) string {
	return r.key + " " + among(r.shown.param, n) + " AND " + r.due()
}

// values returns the keys as parameters.
func values(keys []cdc.RowKey) []any {
	list := make([]any, len(keys))
	for i := range keys {
		list[i] = keys[i].Value
	}
	return list
}

// Act deletes or marks the rows of these keys that are still due, in one transaction, and returns how many. Rows that another transaction has
// locked are not marked: nothing that is marked waits for a row while it has others.
func (r *Rows) Act(ctx context.Context, keys []cdc.RowKey, dead bool) (n int, err error) {
	if !r.Marks() { // a trigger keeps rows by an error only
		done, err := r.db.rows.ExecContext(ctx, fmt.Sprintf("DELETE FROM %s WHERE %s", r.sql, r.these(len(keys))), values(keys)...)
		if err != nil {
			return 0, r.failed(r.Doing(), err)
		}
		affected, err := done.RowsAffected()
		return int(affected), err
	}
	// A relay that is frozen holds no rows for long.
	if _, err := r.db.rows.ExecContext(ctx, "SET SESSION wait_timeout = ?", int(lockTimeout.Seconds())); err != nil {
		return 0, r.failed(r.Doing(), err)
	}
	defer func() { _, _ = r.db.rows.ExecContext(ctx, "SET SESSION wait_timeout = DEFAULT") }()
	tx, err := r.db.rows.BeginTx(ctx, nil)
	if err != nil {
		return 0, r.failed(r.Doing(), err)
	}
	defer func() { _ = tx.Rollback() }() // nothing after a commit
	n, err = r.markIn(ctx, tx, values(keys), dead)
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return 0, r.failed(r.Doing(), err)
	}
	return n, nil
}

func (r *Rows) markIn(ctx context.Context, tx *sql.Tx, keys []any, dead bool) (int, error) {
	locked, err := r.keys(ctx, tx, fmt.Sprintf("SELECT %s FROM %s WHERE %s FOR UPDATE SKIP LOCKED", r.selected(), r.sql+force(r.read), r.these(len(keys))), keys...)
	if err != nil || len(locked) == 0 {
		return 0, err
	}
	keys = values(locked)
	text, args := r.update(r.Assigned(dead), r.these(len(keys)))
	if _, err := tx.ExecContext(ctx, text, append(args, keys...)...); err != nil {
		return 0, err
	}
	var left int
	if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+r.sql+" WHERE "+r.these(len(keys)), keys...).Scan(&left); err != nil {
		return 0, err
	}
	if left > 0 {
		return 0, cdc.StillPending(r.Table, left)
	}
	return len(locked), nil
}

// ER_QUERY_TIMEOUT, and ER_STATEMENT_TIMEOUT of MariaDB.
const tooLong, tooLongMariaDB = 3024, 1969

func (r *Rows) failed(doing string, err error) error {
	code, said := ErrorNumber(err)
	switch {
	case err == nil, cdc.Fix(err) != "":
		return err
	case code == 0:
		return fmt.Errorf("table %s: %s: %w", r.Table, doing, err)
	case code == gomysql.ER_LOCK_WAIT_TIMEOUT, code == gomysql.ER_LOCK_DEADLOCK:
		return cdc.Fixable(endLockers, "table %s: %s: %w: %s", r.Table, doing, cdc.ErrBusy, lockHeld)
	case code == tooLong, code == tooLongMariaDB:
		return cdc.Fixable("create an index for "+cmp.Or(r.Pending, r.at), "table %s: %s: %s was not done in time", r.Table, doing, r.db.Server.Flavor.Title())
	case code == gomysql.ER_TABLEACCESS_DENIED_ERROR, code == gomysql.ER_COLUMNACCESS_DENIED_ERROR:
		verb, doing := "DELETE", "delete"
		if r.Marks() {
			verb, doing = "UPDATE", "mark"
		}
		return cdc.Fixable(fmt.Sprintf("run GRANT SELECT, %s ON %s TO %s", verb, r.sql, AccountOf(r.db.Server.Role)), "user %s %w %s rows of %s", r.db.Server.Role, cdc.ErrMayNot, doing, r.Table)
	case r.Marks():
	case code == gomysql.ER_ROW_IS_REFERENCED, code == gomysql.ER_ROW_IS_REFERENCED_2:
		return cdc.Fixable("delete the rows that refer to old events, or remove that foreign key with ALTER TABLE ... DROP FOREIGN KEY", "table %s: %s: %w: a foreign key refers to them (%s)", r.Table, doing, cdc.ErrHeld, said)
	case code == gomysql.ER_SIGNAL_EXCEPTION, signalled(err):
		return cdc.Fixable("change the trigger so that it lets old rows go", "table %s: %s: %w: a trigger ON DELETE says %q", r.Table, doing, cdc.ErrHeld, said)
	}
	return fmt.Errorf("table %s: %s: %s: %s (%d)", r.Table, doing, r.db.Server.Flavor.Title(), said, code)
}
