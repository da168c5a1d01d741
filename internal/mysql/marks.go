package mysql

import (
	"context"
	"fmt"
	"slices"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// verifyMarks returns an error if rows cannot be marked. The connection logs of a row no more than its key and what is set, if the user may
// ask for that.
func (r *Rows) verifyMarks(ctx context.Context) error {
	if r.kind == "bit" { // the driver brings bytes, which no comparison takes for the number
		return cdc.ConfigError(cdc.BadWriteBack, "remove write_back, or map a column of another type with a unique index", "column %s of table %s has the type BIT, by which no row can be marked", r.Key, r.Table)
	}
	_, _ = r.db.rows.ExecContext(ctx, "SET SESSION binlog_row_image = MINIMAL")
	// The condition must be one without brackets around it, too: with them others could be added.
	if err := explain(ctx, r.db.rows, "SELECT 1 FROM "+r.sql+" WHERE "+r.Pending+"\nLIMIT 1"); err != nil {
		return r.unfit(err)
	}
	for _, set := range [][]cdc.Assignment{r.Set, r.OnDeadLetter} {
		if len(set) == 0 {
			continue
		}
		text, values := r.update(set, "FALSE AND "+r.due())
		if err := explain(ctx, r.db.rows, text, values...); err != nil {
			return r.unfit(err)
		}
	}
	return r.enums(ctx)
}

// enums returns an error if a text that is set is not a value of its column's ENUM, not even as an index: the server says so only of a row.
func (r *Rows) enums(ctx context.Context) error {
	for _, a := range slices.Concat(r.Set, r.OnDeadLetter) {
		if a.SQL != "" {
			continue
		}
		var list string
		err := r.db.rows.QueryRowContext(ctx, `SELECT COALESCE(MIN(column_type), '') FROM information_schema.columns
			WHERE table_schema = ? AND table_name = ? AND column_name = ? AND data_type = 'enum'`, r.schema, r.table, a.Column).Scan(&list)
		if err != nil {
			return fmt.Errorf("read table %s: %w", r.Table, err)
		}
		if quoted := "'" + strings.ReplaceAll(a.Value, "'", "''") + "'"; list != "" && !strings.Contains(strings.ToLower(list), strings.ToLower(quoted)) {
			return cdc.ConfigError(cdc.BadWriteBack, "set one of "+list, "write_back of table %s: %q is no value of column %s", r.Table, a.Value, a.Column)
		}
	}
	return nil
}

// explain asks for the plan of a statement, which takes the rights that it does.
func explain(ctx context.Context, db querier, statement string, args ...any) error {
	return eachShown(ctx, db, "EXPLAIN "+statement, func(map[string]string) {}, args...)
}

// indexOf returns the index that the server uses for a query of one table; "": none.
func indexOf(ctx context.Context, db querier, query string) (string, error) {
	var keys []string // the first is the table's, others are those of subqueries
	err := eachShown(ctx, db, "EXPLAIN FORMAT=TRADITIONAL "+query, func(shown map[string]string) { keys = append(keys, shown["key"]) })
	if err != nil || len(keys) == 0 || strings.Contains(keys[0], ",") { // several are merged
		return "", err
	}
	return keys[0], nil
}

// unfit says that the server refuses the condition, or what is set.
func (r *Rows) unfit(err error) error {
	code, said := ErrorNumber(err)
	switch code {
	case gomysql.ER_PARSE_ERROR, gomysql.ER_BAD_FIELD_ERROR, gomysql.ER_FIELD_SPECIFIED_TWICE,
		gomysql.ER_SP_DOES_NOT_EXIST, gomysql.ER_INVALID_GROUP_FUNC_USE, gomysql.ER_TRUNCATED_WRONG_VALUE, nonDefaultGenerated:
		return cdc.UnfitWriteBack(r.Table, r.db.Server.Flavor.Title(), said)
	}
	return r.failed("prepare the marks", err)
}

// nonDefaultGenerated is ER_NON_DEFAULT_VALUE_FOR_GENERATED_COLUMN.
const nonDefaultGenerated = 3105

// force has a statement use an index; "": any.
func force(index string) string {
	if index == "" {
		return ""
	}
	return " FORCE INDEX (" + QuoteName(index) + ")"
}

// update is the statement that marks rows.
func (r *Rows) update(set []cdc.Assignment, where string) (text string, values []any) {
	var list []string
	for _, a := range set {
		to := "(" + a.SQL + "\n)"
		if a.SQL == "" {
			values = append(values, a.Value)
			to = "?"
		}
		list = append(list, QuoteName(a.Column)+" = "+to)
	}
	return "UPDATE " + r.sql + force(r.unique) + " SET " + strings.Join(list, ", ") + " WHERE " + where, values
}
