package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/cdc-relay/cdc-relay/internal/tableread"
)

// Param implements [tableread.Driver]. Parameters are texts, which the server casts.
func (t *TableReader) Param(c *tableread.Conditions, of *tableread.Column, text string) string {
	return "$" + strconv.Itoa(c.Arg([]byte(text))) + "::" + cmp.Or(of.Kind, "text")
}

// Among implements [tableread.Driver].
func (t *TableReader) Among(c *tableread.Conditions, of *tableread.Column, texts []string) string {
	list, _ := t.conn.TypeMap().Encode(pgtype.TextArrayOID, pgtype.TextFormatCode, texts, nil) // which takes every text
	return fmt.Sprintf("= ANY($%d::text[]::%s[])", c.Arg(list), cmp.Or(of.Kind, "text"))
}

// KeyOf implements [tableread.Driver]. What the server would say of a number that is too large is no error of an ID.
func (t *TableReader) KeyOf(id string) (string, bool) {
	bits, whole := map[string]int{"smallint": 16, "integer": 32, "bigint": 64}[t.Key.Kind]
	_, err := strconv.ParseInt(id, 10, bits)
	return id, !whole || err == nil
}

// AppendKey implements [tableread.Driver].
func (t *TableReader) AppendKey(text, value []byte) ([]byte, error) {
	return t.Table.Columns[t.Key.Index].Form.AppendText(text, value)
}

// AppendCell implements [tableread.Driver].
func (t *TableReader) AppendCell(arena []byte, _ int, value []byte) ([]byte, error) {
	return append(arena, value...), nil
}

// Query implements [tableread.Driver].
func (t *TableReader) Query(ctx context.Context, sql string, args []any, page *tableread.Page, row func([][]byte) error) error {
	texts := make([][]byte, len(args))
	for i, arg := range args {
		texts[i], _ = arg.([]byte)
	}
	var formats []int16
	if page != nil {
		formats = t.formats
	}
	result := t.conn.PgConn().ExecParams(ctx, sql, texts, nil, nil, formats)
	for result.NextRow() {
		if err := row(result.Values()); err != nil {
			_, _ = result.Close() // it reads the rest, which is at most a page
			return err
		}
	}
	_, err := result.Close()
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && page != nil && strings.Contains(statesUnreadable, pg.Code) {
		return tableread.Unreadable(t.Options.Table, t.Options.IDPrefix+page.Keys[0].ID, pg.Message)
	}
	return t.failed(err)
}

// CountWhere counts the rows that a condition selects. It must be one without brackets around it, too: with them others could be added.
func (t *TableReader) CountWhere(ctx context.Context, where string) (n int64, err error) {
	_, err = t.conn.PgConn().ExecParams(ctx, "SELECT FROM "+t.Options.SQL+" WHERE "+where+"\nLIMIT 0", nil, nil, nil, nil).Close()
	if err == nil {
		n, err = t.Count(ctx, tableread.Filter{Where: where})
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code != stateInsufficientPrivilege && slices.Contains([]string{"22", "42", "0A"}, pg.Code[:2]) {
		return 0, tableread.BadCondition(t.Options.Table, "PostgreSQL: "+pg.Message)
	}
	return n, err
}
