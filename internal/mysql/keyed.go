package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"unicode/utf8"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// KeyedOptions name a table whose rows are deleted or marked by their key once they are published.
type KeyedOptions struct {
	// Table is its name ("orders.outbox").
	Table string
	// Key is the column with the event's ID, and IDPrefix what goes before it.
	Key, IDPrefix string
	// Source is the binlog's identity; the checkpoint that Load finds tells what is relayed.
	Source cdc.Source
	Load   cdc.Loader
}

// keyed is such a table.
type keyed struct {
	KeyedOptions

	db *Database
	// schema and table are its name, and sql and key are quoted.
	schema, table, sql, key string
	// kind is the key's type and unique its index. shown selects it as records have it, and param is a parameter for it.
	kind, unique, param string
	shown               cell
}

func (d *Database) keyed(o KeyedOptions) keyed {
	schema, table, _ := strings.Cut(o.Table, ".")
	return keyed{KeyedOptions: o, db: d, schema: schema, table: table, sql: quoteTable(o.Table), key: QuoteName(o.Key)}
}

// Name returns the table's name.
func (k *keyed) Name() string { return k.Table }

const describeKeyed = `SELECT
	(SELECT COUNT(*) FROM information_schema.partitions WHERE table_schema = ? AND table_name = ? AND partition_name IS NOT NULL),
	(SELECT COALESCE(MIN(index_name), '') FROM (SELECT index_name FROM information_schema.statistics WHERE table_schema = ? AND table_name = ? AND non_unique = 0
		GROUP BY index_name HAVING COUNT(*) = 1 AND SUM(column_name = ? AND sub_part IS NULL) = 1) AS own),
	COALESCE(LOWER(data_type), ''), COALESCE(character_octet_length, 0), COALESCE(character_set_name, ''), COALESCE(numeric_precision, 0), COALESCE(numeric_scale, 0)
	FROM (SELECT 1) AS one LEFT JOIN information_schema.columns ON table_schema = ? AND table_name = ? AND column_name = ?`

// verify takes a connection, and returns an error if rows cannot be written by their key; that they have an index is left to indexed.
// partitioned is the error of a table with partitions.
func (k *keyed) verify(ctx context.Context, partitioned error) error {
	if k.db.Server.ReadOnly {
		return cdc.Fixable("point source.mysql.dsn at the primary", "rows of %s: %s is read only", k.Table, k.db.Server.Address)
	}
	if err := k.db.publishes(); err != nil {
		return err
	}
	if err := k.connect(ctx); err != nil {
		return err
	}
	var parts, precision, scale int
	var set string
	var length uint64
	err := k.db.rows.QueryRowContext(ctx, describeKeyed, k.schema, k.table, k.schema, k.table, k.Key, k.schema, k.table, k.Key).
		Scan(&parts, &k.unique, &k.kind, &length, &set, &precision, &scale)
	switch {
	case err != nil:
		return fmt.Errorf("read table %s: %w", k.Table, err)
	case parts > 0:
		return partitioned
	}
	k.shown, k.param = cellOf(k.kind, columnOf(k.Key, k.kind, length, set)), "?"
	if k.kind == "decimal" { // with a text it is compared as a rounded number
		k.param = fmt.Sprintf("CAST(? AS DECIMAL(%d, %d))", precision, scale)
	}
	return nil
}

// indexed returns an error if no index finds a row by its key.
func (k *keyed) indexed() error {
	if k.unique == "" {
		return cdc.Fixable("create a unique index on it", "column %s of table %s has no unique index of its own, by which rows are found", k.Key, k.Table)
	}
	return nil
}

// connect takes a connection, the same for all tables, that locks the rows that it writes and no gaps, and waits for no lock for long.
func (k *keyed) connect(ctx context.Context) (err error) {
	if k.db.rows != nil {
		return nil
	}
	if k.db.rows, err = k.db.DB.Conn(ctx); err != nil {
		return connectError(err, k.db.Config)
	}
	for _, setting := range []string{
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET SESSION innodb_lock_wait_timeout = 1",
		"SET SESSION lock_wait_timeout = 1", writes,
	} {
		if _, err := k.db.rows.ExecContext(ctx, setting); err != nil {
			return k.failed("prepare the connection", err)
		}
	}
	return nil
}

// find returns the keys that a query selects, and a position behind the transactions that wrote the rows: it is read after the rows.
func (k *keyed) find(ctx context.Context, query string, args ...any) ([]cdc.RowKey, cdc.Position, error) {
	keys, err := k.keys(ctx, k.db.rows, query, args...)
	if err != nil {
		return nil, "", k.failed("read rows", err)
	}
	behind, err := k.db.end(ctx, k.db.rows)
	if err != nil {
		return nil, "", k.failed("read the binlog's end", err)
	}
	return keys, cdc.Position(behind.String()), nil
}

// selected are the columns that keys reads.
func (k *keyed) selected() string { return k.key + ", " + k.shown.sql }

// keys reads keys. A number stays one: compared as text it would be rounded. Text is compared in the collation of the column, so that its
// index is used.
func (k *keyed) keys(ctx context.Context, db querier, query string, args ...any) (keys []cdc.RowKey, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var key any
		var shown sql.RawBytes
		if err := rows.Scan(&key, &shown); err != nil {
			return nil, err
		}
		if b, ok := key.([]byte); ok && !k.shown.hex {
			key = string(b)
		}
		keys = append(keys, cdc.NewRowKey(k.IDPrefix, k.id(shown), key))
	}
	return keys, rows.Err()
}

// id is the ID as events and dead letters have it: "" where it cannot be read.
func (k *keyed) id(shown []byte) string {
	value, err := k.shown.append(nil, shown)
	if err == nil {
		value, err = k.shown.form.AppendText(nil, value)
	}
	if err != nil || !utf8.Valid(value) {
		return ""
	}
	return string(value)
}

// Passed reports whether the checkpoint has passed a position.
func (k *keyed) Passed(ctx context.Context, behind cdc.Position) (bool, error) {
	noted, err := ParseSet(k.db.Server.Flavor, string(behind))
	if err != nil {
		return false, err
	}
	done := k.db.relayed(ctx, k.db.rows, k.Source, k.Load)
	return done.passed(noted), done.unknown
}

// among is the condition for the rows of n keys.
func (k *keyed) among(n int) string {
	return k.key + " IN (" + k.param + strings.Repeat(", "+k.param, n-1) + ")"
}

// values returns the keys as parameters.
func values(keys []cdc.RowKey) []any {
	list := make([]any, len(keys))
	for i := range keys {
		list[i] = keys[i].Value
	}
	return list
}

func (k *keyed) failed(doing string, err error) error {
	code, said := ErrorNumber(err)
	switch {
	case err == nil, cdc.Fix(err) != "":
		return err
	case code == 0:
		return fmt.Errorf("table %s: %s: %w", k.Table, doing, err)
	case code == gomysql.ER_LOCK_WAIT_TIMEOUT, code == gomysql.ER_LOCK_DEADLOCK:
		return cdc.Fixable(endLockers, "table %s: %s: %w: %s", k.Table, doing, cdc.ErrBusy, lockHeld)
	}
	return fmt.Errorf("table %s: %s: %s: %s (%d)", k.Table, doing, k.db.Server.Flavor.Title(), said, code)
}
