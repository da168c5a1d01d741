package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// MarkOptions name a table whose published rows are marked.
type MarkOptions struct {
	// Table is its name ("orders.outbox").
	Table string
	// Key is the column with the event's ID, and IDPrefix what goes before it.
	Key, IDPrefix string
	// Pending is the condition of the rows that are marked.
	Pending string
	// Set is what becomes of them, OnDeadLetter what becomes of those whose events are dead letters.
	Set, OnDeadLetter []cdc.Assignment
	// Source is the binlog's identity; the checkpoint that Load finds tells what is relayed.
	Source cdc.Source
	Load   cdc.Loader
}

// Marks are the rows of a table that are marked once they are published.
type Marks struct {
	db *Database
	o  MarkOptions
	// sql and key are quoted, pending is in brackets.
	sql, key, pending string
	// shown selects the key as records have it, and param is a parameter for it.
	shown cell
	param string
	// unique is the key's index, and read the one by which pending rows are found; "": none. Rows are locked by the latter: a poller, which
	// finds them in the same way, locks first their entries in it and then the rows, and in another order the two would wait for each
	// other. By the former they are updated: by another one the update would wait for rows beside them.
	unique, read string
}

// Marks returns the rows of a table. Verify comes first.
func (d *Database) Marks(o MarkOptions) *Marks {
	return &Marks{db: d, o: o, sql: quoteTable(o.Table), key: QuoteName(o.Key), pending: "(" + o.Pending + "\n)"} // the condition may end with a comment
}

// Name returns the table's name.
func (m *Marks) Name() string { return m.o.Table }

const describeMarks = `SELECT
	(SELECT COUNT(*) FROM information_schema.partitions WHERE table_schema = ? AND table_name = ? AND partition_name IS NOT NULL),
	(SELECT COALESCE(MIN(index_name), '') FROM (SELECT index_name FROM information_schema.statistics WHERE table_schema = ? AND table_name = ? AND non_unique = 0
		GROUP BY index_name HAVING COUNT(*) = 1 AND SUM(column_name = ? AND sub_part IS NULL) = 1) AS own),
	COALESCE(LOWER(data_type), ''), COALESCE(character_octet_length, 0), COALESCE(character_set_name, ''), COALESCE(numeric_precision, 0), COALESCE(numeric_scale, 0)
	FROM (SELECT 1) AS one LEFT JOIN information_schema.columns ON table_schema = ? AND table_name = ? AND column_name = ?`

// describe reads what Verify needs to know of the table.
func (m *Marks) describe(ctx context.Context) (partitioned int, err error) {
	schema, table, _ := strings.Cut(m.o.Table, ".")
	var kind, set string
	var length uint64
	var precision, scale int
	err = m.db.rows.QueryRowContext(ctx, describeMarks, schema, table, schema, table, m.o.Key, schema, table, m.o.Key).
		Scan(&partitioned, &m.unique, &kind, &length, &set, &precision, &scale)
	if err != nil {
		return 0, fmt.Errorf("read table %s: %w", m.o.Table, err)
	}
	if kind == "bit" { // the driver brings bytes, which no comparison takes for the number
		return 0, cdc.ConfigError(cdc.BadWriteBack, "remove write_back, or map a column of another type with a unique index", "column %s of table %s has the type BIT, by which no row can be marked", m.o.Key, m.o.Table)
	}
	m.shown, m.param = cellOf(kind, columnOf(m.o.Key, kind, length, set)), "?"
	if kind == "decimal" { // with a text it is compared as a rounded number
		m.param = fmt.Sprintf("CAST(? AS DECIMAL(%d, %d))", precision, scale)
	}
	return partitioned, nil
}

// Verify returns an error if rows cannot be marked, and takes a connection.
func (m *Marks) Verify(ctx context.Context) error {
	if m.db.Server.ReadOnly {
		return cdc.Fixable("point source.mysql.dsn at the primary", "rows of %s: %s is read only", m.o.Table, m.db.Server.Address)
	}
	if err := m.db.publishes(); err != nil {
		return err
	}
	if err := m.connect(ctx); err != nil {
		return err
	}
	partitioned, err := m.describe(ctx)
	switch {
	case err != nil:
		return err
	case partitioned > 0:
		return cdc.Fixable("remove write_back: old partitions are dropped as a whole, and need no marks", "rows of %s are not marked: it has partitions, so no index finds a row by its ID alone", m.o.Table)
	}
	// The condition must be one without brackets around it, too: with them others could be added.
	if err := explain(ctx, m.db.rows, "SELECT 1 FROM "+m.sql+" WHERE "+m.o.Pending+"\nLIMIT 1"); err != nil {
		return m.unfit(err)
	}
	for _, set := range [][]cdc.Assignment{m.o.Set, m.o.OnDeadLetter} {
		if len(set) == 0 {
			continue
		}
		text, values := m.update(set, "FALSE")
		if err := explain(ctx, m.db.rows, text, values...); err != nil {
			return m.unfit(err)
		}
	}
	if err := m.enums(ctx); err != nil {
		return err
	}
	if m.unique == "" {
		return cdc.Fixable("create a unique index on it", "column %s of table %s has no unique index of its own, by which rows could be marked", m.o.Key, m.o.Table)
	}
	return nil
}

// enums returns an error if a text that is set is none of its ENUM: the server says so only of a row.
func (m *Marks) enums(ctx context.Context) error {
	schema, table, _ := strings.Cut(m.o.Table, ".")
	for _, a := range slices.Concat(m.o.Set, m.o.OnDeadLetter) {
		if a.SQL != "" {
			continue
		}
		var list string
		err := m.db.rows.QueryRowContext(ctx, `SELECT COALESCE(MIN(column_type), '') FROM information_schema.columns
			WHERE table_schema = ? AND table_name = ? AND column_name = ? AND data_type = 'enum'`, schema, table, a.Column).Scan(&list)
		if err != nil {
			return fmt.Errorf("read table %s: %w", m.o.Table, err)
		}
		if quoted := "'" + strings.ReplaceAll(a.Value, "'", "''") + "'"; list != "" && !strings.Contains(strings.ToLower(list), strings.ToLower(quoted)) {
			return cdc.ConfigError(cdc.BadWriteBack, "set one of "+list, "write_back of table %s: %q is no value of column %s", m.o.Table, a.Value, a.Column)
		}
	}
	return nil
}

// explain asks for the plan of a statement, which takes the rights that it does.
func explain(ctx context.Context, db querier, statement string, args ...any) error {
	plan, err := db.QueryContext(ctx, "EXPLAIN "+statement, args...)
	if err != nil {
		return err
	}
	defer func() { _ = plan.Close() }()
	return plan.Err()
}

// indexOf returns the index that the server uses for a query of one table; "": none.
func indexOf(ctx context.Context, db querier, query string) (string, error) {
	plan, err := db.QueryContext(ctx, "EXPLAIN FORMAT=TRADITIONAL "+query)
	if err != nil {
		return "", err
	}
	defer func() { _ = plan.Close() }()
	columns, err := plan.Columns()
	if err != nil || !plan.Next() {
		return "", cmp.Or(err, plan.Err())
	}
	values := make([]any, len(columns))
	var key sql.NullString
	for i, name := range columns {
		if values[i] = new(any); name == "key" {
			values[i] = &key
		}
	}
	if err := plan.Scan(values...); err != nil || strings.Contains(key.String, ",") { // several are merged
		return "", err
	}
	return key.String, nil
}

// MayUpdate reports whether the user may read a table, whose name is in SQL, and update columns of it.
func (d *Database) MayUpdate(ctx context.Context, table string, columns []string) (bool, error) {
	var set []string
	for _, c := range columns {
		set = append(set, QuoteName(c)+" = "+QuoteName(c))
	}
	err := explain(ctx, d.DB, "UPDATE "+table+" SET "+strings.Join(set, ", ")+" WHERE FALSE")
	if code, _ := ErrorNumber(err); denied(code) {
		return false, nil
	}
	return true, nil // another reason is Verify's
}

func denied(code uint16) bool {
	return code == gomysql.ER_TABLEACCESS_DENIED_ERROR || code == gomysql.ER_COLUMNACCESS_DENIED_ERROR
}

// connect takes a connection, the same for all tables, that locks the rows that it marks and no gaps, waits for no lock for long, and logs
// of a row no more than its key and what is set, if the user may ask for that.
func (m *Marks) connect(ctx context.Context) (err error) {
	if m.db.rows != nil {
		return nil
	}
	if m.db.rows, err = m.db.DB.Conn(ctx); err != nil {
		return connectError(err, m.db.Config)
	}
	for _, setting := range []string{
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET SESSION innodb_lock_wait_timeout = 1",
		"SET SESSION lock_wait_timeout = 1", writes,
	} {
		if _, err := m.db.rows.ExecContext(ctx, setting); err != nil {
			return m.failed("prepare the connection", err)
		}
	}
	_, _ = m.db.rows.ExecContext(ctx, "SET SESSION binlog_row_image = MINIMAL")
	return nil
}

// unfit says that the server refuses the condition, or what is set.
func (m *Marks) unfit(err error) error {
	code, said := ErrorNumber(err)
	switch code {
	case gomysql.ER_PARSE_ERROR, gomysql.ER_BAD_FIELD_ERROR, gomysql.ER_FIELD_SPECIFIED_TWICE,
		gomysql.ER_SP_DOES_NOT_EXIST, gomysql.ER_INVALID_GROUP_FUNC_USE, gomysql.ER_TRUNCATED_WRONG_VALUE, nonDefaultGenerated:
		return cdc.ConfigError(cdc.BadWriteBack, "correct write_back: pending is what follows WHERE, and set has a text or {sql: an expression} for each column, in the server's SQL",
			"write_back of table %s: %s: %s", m.o.Table, m.db.Server.Flavor.Title(), said)
	}
	return m.failed("prepare the marks", err)
}

// nonDefaultGenerated is ER_NON_DEFAULT_VALUE_FOR_GENERATED_COLUMN.
const nonDefaultGenerated = 3105

// Pending returns the keys of committed rows that are pending, at most limit, and a position behind the transactions that wrote them: it
// is read after the rows.
func (m *Marks) Pending(ctx context.Context, limit int) ([]cdc.RowKey, cdc.Position, error) {
	query := fmt.Sprintf("SELECT %s, %s FROM %s WHERE %s AND %[1]s IS NOT NULL LIMIT %[5]d", m.key, m.shown.sql, m.sql, m.pending, limit)
	keys, err := m.keys(ctx, m.db.rows, query)
	if err == nil && len(keys) > 0 {
		m.read, err = indexOf(ctx, m.db.rows, query)
	}
	if err != nil {
		return nil, "", m.failed("read pending rows", err)
	}
	behind, err := m.db.end(ctx, m.db.rows)
	if err != nil {
		return nil, "", m.failed("read the binlog's end", err)
	}
	return keys, cdc.Position(behind.String()), nil
}

// keys reads keys. A number stays one: compared as text it would be rounded. Text is compared in the collation of the column, so that its
// index is used.
func (m *Marks) keys(ctx context.Context, db querier, query string, args ...any) (keys []cdc.RowKey, err error) {
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
		if b, ok := key.([]byte); ok && !m.shown.hex {
			key = string(b)
		}
		keys = append(keys, cdc.NewRowKey(m.o.IDPrefix, m.id(shown), key))
	}
	return keys, rows.Err()
}

// id is the ID as events and dead letters have it: "" where it cannot be read.
func (m *Marks) id(shown []byte) string {
	value, err := m.shown.append(nil, shown)
	if err == nil {
		value, err = m.shown.form.AppendText(nil, value)
	}
	if err != nil || !utf8.Valid(value) {
		return ""
	}
	return string(value)
}

// Passed reports whether the checkpoint has passed a position.
func (m *Marks) Passed(ctx context.Context, behind cdc.Position) (bool, error) {
	noted, err := ParseSet(m.db.Server.Flavor, string(behind))
	if err != nil {
		return false, err
	}
	done := m.db.relayed(ctx, m.db.rows, m.o.Source, m.o.Load)
	return done.passed(noted), done.unknown
}

// these is the condition for the rows of n keys that are still pending.
func (m *Marks) these(n int) string { return m.among(n) + " AND " + m.pending }

// force has a statement use an index; "": any.
func force(index string) string {
	if index == "" {
		return ""
	}
	return " FORCE INDEX (" + QuoteName(index) + ")"
}

func (m *Marks) among(n int) string {
	return m.key + " IN (" + m.param + strings.Repeat(", "+m.param, n-1) + ")"
}

// update is the statement that marks rows.
func (m *Marks) update(set []cdc.Assignment, where string) (text string, values []any) {
	var list []string
	for _, a := range set {
		to := "(" + a.SQL + "\n)"
		if a.SQL == "" {
			values = append(values, a.Value)
			to = "?"
		}
		list = append(list, QuoteName(a.Column)+" = "+to)
	}
	return "UPDATE " + m.sql + force(m.unique) + " SET " + strings.Join(list, ", ") + " WHERE " + where + " AND " + m.pending, values
}

// Mark marks the rows of these keys that are still pending, in one transaction, and returns how many. Rows that another transaction has
// locked are left out: nothing here waits for a row while it has others.
func (m *Marks) Mark(ctx context.Context, keys []cdc.RowKey, dead bool) (n int, err error) {
	set := m.o.Set
	if dead {
		set = m.o.OnDeadLetter
	}
	// A relay that is frozen holds no rows for long.
	if _, err := m.db.rows.ExecContext(ctx, "SET SESSION wait_timeout = ?", int(lockTimeout.Seconds())); err != nil {
		return 0, m.failed("mark rows", err)
	}
	defer func() { _, _ = m.db.rows.ExecContext(ctx, "SET SESSION wait_timeout = DEFAULT") }()
	tx, err := m.db.rows.BeginTx(ctx, nil)
	if err != nil {
		return 0, m.failed("mark rows", err)
	}
	defer func() { _ = tx.Rollback() }() // nothing after a commit
	n, err = m.markIn(ctx, tx, values(keys), set)
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return 0, m.failed("mark rows", err)
	}
	return n, nil
}

func (m *Marks) markIn(ctx context.Context, tx *sql.Tx, keys []any, set []cdc.Assignment) (int, error) {
	locked, err := m.keys(ctx, tx, fmt.Sprintf("SELECT %s, %s FROM %s WHERE %s FOR UPDATE SKIP LOCKED", m.key, m.shown.sql, m.sql+force(m.read), m.these(len(keys))), keys...)
	if err != nil || len(locked) == 0 {
		return 0, err
	}
	keys = values(locked)
	text, args := m.update(set, m.among(len(keys)))
	if _, err := tx.ExecContext(ctx, text, append(args, keys...)...); err != nil {
		return 0, err
	}
	var left int
	if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+m.sql+" WHERE "+m.these(len(keys)), keys...).Scan(&left); err != nil {
		return 0, err
	}
	if left > 0 {
		return 0, cdc.Fixable("have write_back set a column so that its condition no longer holds, and look for a trigger that takes it back",
			"rows of table %s would be pending after they are marked: %d of a batch", m.o.Table, left)
	}
	return len(locked), nil
}

func values(keys []cdc.RowKey) []any {
	list := make([]any, len(keys))
	for i := range keys {
		list[i] = keys[i].Value
	}
	return list
}

func (m *Marks) failed(doing string, err error) error {
	code, said := ErrorNumber(err)
	switch {
	case code == 0 && cdc.Fix(err) != "":
		return err
	case code == 0:
		return fmt.Errorf("table %s: %s: %w", m.o.Table, doing, err)
	case denied(code):
		return cdc.Fixable(fmt.Sprintf("run GRANT SELECT, UPDATE ON %s TO %s", m.sql, AccountOf(m.db.Server.Role)), "user %s may not mark rows of %s", m.db.Server.Role, m.o.Table)
	case code == gomysql.ER_LOCK_WAIT_TIMEOUT, code == gomysql.ER_LOCK_DEADLOCK:
		return cdc.Fixable(endLockers, "table %s: %s: %w: %s", m.o.Table, doing, cdc.ErrBusy, lockHeld)
	}
	return fmt.Errorf("table %s: %s: %s: %s (%d)", m.o.Table, doing, m.db.Server.Flavor.Title(), said, code)
}
