package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// MarkOptions name a table whose published rows are marked.
type MarkOptions struct {
	KeyedOptions

	// Pending is the condition of the rows that are marked.
	Pending string
	// Set is what becomes of them, OnDeadLetter what becomes of those whose events are dead letters.
	Set, OnDeadLetter []cdc.Assignment
}

// Marks are the rows of a table that are marked once they are published.
type Marks struct {
	keyed

	o       MarkOptions
	pending string // in brackets
	// read is the index by which pending rows are found; "": none. Rows are locked by it: a poller, which finds them in the same way, locks
	// first their entries in it and then the rows, and in another order the two would wait for each other. By the key's index they are
	// updated: by another one the update would wait for rows beside them.
	read string
}

// Marks returns the rows of a table. Verify comes first.
func (d *Database) Marks(o MarkOptions) *Marks {
	return &Marks{keyed: d.keyed(o.KeyedOptions), o: o, pending: "(" + o.Pending + "\n)"} // the condition may end with a comment
}

// Verify returns an error if rows cannot be marked, and takes a connection, which logs of a row no more than its key and what is set, if the
// user may ask for that.
func (m *Marks) Verify(ctx context.Context) error {
	partitioned := cdc.Fixable("remove write_back: old partitions are dropped as a whole, and need no marks", "rows of %s are not marked: it has partitions, so no index finds a row by its ID alone", m.Table)
	if err := m.verify(ctx, partitioned); err != nil {
		return err
	}
	if m.kind == "bit" { // the driver brings bytes, which no comparison takes for the number
		return cdc.ConfigError(cdc.BadWriteBack, "remove write_back, or map a column of another type with a unique index", "column %s of table %s has the type BIT, by which no row can be marked", m.Key, m.Table)
	}
	_, _ = m.db.rows.ExecContext(ctx, "SET SESSION binlog_row_image = MINIMAL")
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
	return m.indexed()
}

// enums returns an error if a text that is set is none of its ENUM: the server says so only of a row.
func (m *Marks) enums(ctx context.Context) error {
	for _, a := range slices.Concat(m.o.Set, m.o.OnDeadLetter) {
		if a.SQL != "" {
			continue
		}
		var list string
		err := m.db.rows.QueryRowContext(ctx, `SELECT COALESCE(MIN(column_type), '') FROM information_schema.columns
			WHERE table_schema = ? AND table_name = ? AND column_name = ? AND data_type = 'enum'`, m.schema, m.table, a.Column).Scan(&list)
		if err != nil {
			return fmt.Errorf("read table %s: %w", m.Table, err)
		}
		if quoted := "'" + strings.ReplaceAll(a.Value, "'", "''") + "'"; list != "" && !strings.Contains(strings.ToLower(list), strings.ToLower(quoted)) {
			return cdc.ConfigError(cdc.BadWriteBack, "set one of "+list, "write_back of table %s: %q is no value of column %s", m.Table, a.Value, a.Column)
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

// unfit says that the server refuses the condition, or what is set.
func (m *Marks) unfit(err error) error {
	code, said := ErrorNumber(err)
	switch code {
	case gomysql.ER_PARSE_ERROR, gomysql.ER_BAD_FIELD_ERROR, gomysql.ER_FIELD_SPECIFIED_TWICE,
		gomysql.ER_SP_DOES_NOT_EXIST, gomysql.ER_INVALID_GROUP_FUNC_USE, gomysql.ER_TRUNCATED_WRONG_VALUE, nonDefaultGenerated:
		return cdc.ConfigError(cdc.BadWriteBack, "correct write_back: pending is what follows WHERE, and set has a text or {sql: an expression} for each column, in the server's SQL",
			"write_back of table %s: %s: %s", m.Table, m.db.Server.Flavor.Title(), said)
	}
	return m.failed("prepare the marks", err)
}

// nonDefaultGenerated is ER_NON_DEFAULT_VALUE_FOR_GENERATED_COLUMN.
const nonDefaultGenerated = 3105

// Pending returns the keys of committed rows that are pending, at most limit.
func (m *Marks) Pending(ctx context.Context, limit int) (keys []cdc.RowKey, behind cdc.Position, err error) {
	query := fmt.Sprintf("SELECT %s FROM %s WHERE %s AND %s IS NOT NULL LIMIT %d", m.selected(), m.sql, m.pending, m.key, limit)
	if keys, behind, err = m.find(ctx, query); err != nil || len(keys) == 0 {
		return nil, behind, err
	}
	if m.read, err = indexOf(ctx, m.db.rows, query); err != nil {
		return nil, "", m.failed("read pending rows", err)
	}
	return keys, behind, nil
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
	locked, err := m.keys(ctx, tx, fmt.Sprintf("SELECT %s FROM %s WHERE %s FOR UPDATE SKIP LOCKED", m.selected(), m.sql+force(m.read), m.these(len(keys))), keys...)
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
			"rows of table %s would be pending after they are marked: %d of a batch", m.Table, left)
	}
	return len(locked), nil
}

func (m *Marks) failed(doing string, err error) error {
	if code, _ := ErrorNumber(err); denied(code) {
		return cdc.Fixable(fmt.Sprintf("run GRANT SELECT, UPDATE ON %s TO %s", m.sql, AccountOf(m.db.Server.Role)), "user %s may not mark rows of %s", m.db.Server.Role, m.Table)
	}
	return m.keyed.failed(doing, err)
}
