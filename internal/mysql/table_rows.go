package mysql

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/tableread"
)

// among returns the SQL that follows what must be one of n parameters.
func among(param string, n int) string { return "IN (" + param + strings.Repeat(", "+param, n-1) + ")" }

// Param implements [tableread.Driver]. A record's text is compared as bytes, see [cell.text].
func (t *TableReader) Param(c *tableread.Conditions, of *tableread.Column, text string) string {
	switch {
	case of.Name == "":
		c.Arg([]byte(text))
		return "?"
	case t.cells[of.Index].hex:
		raw, err := hex.DecodeString(text)
		if err != nil {
			c.Fail(fmt.Errorf("read table %s: key %q: %w", t.Options.Table, text, err))
		}
		c.Arg(raw)
	default:
		c.Arg(text)
	}
	return t.cells[of.Index].param
}

// Among implements [tableread.Driver].
func (t *TableReader) Among(c *tableread.Conditions, of *tableread.Column, texts []string) string {
	var param string
	for _, text := range texts {
		param = t.Param(c, of, text)
	}
	return among(param, len(texts))
}

// KeyOf implements [tableread.Driver].
func (t *TableReader) KeyOf(id string) (string, bool) { return t.cells[t.Key.Index].keyOf(id) }

// AppendKey implements [tableread.Driver].
func (t *TableReader) AppendKey(text, value []byte) ([]byte, error) {
	if !t.cells[t.Key.Index].hex {
		return append(text, value...), nil
	}
	const digits = "0123456789ABCDEF"
	for _, b := range value {
		text = append(text, digits[b>>4], digits[b&15])
	}
	return text, nil
}

// AppendCell implements [tableread.Driver].
func (t *TableReader) AppendCell(arena []byte, column int, value []byte) ([]byte, error) {
	return t.cells[column].append(arena, value)
}

// Reading implements [tableread.Driver].
func (t *TableReader) Reading(_ context.Context, read func() error) error { return read() }

// Query implements [tableread.Driver].
func (t *TableReader) Query(ctx context.Context, query string, args []any, _ *tableread.Page, row func([][]byte) error) error {
	found, err := t.conn.QueryContext(ctx, query, args...)
	if err != nil {
		return t.failed(err)
	}
	defer func() { _ = found.Close() }()
	columns, err := found.Columns()
	if err != nil {
		return t.failed(err)
	}
	values, places := make([][]byte, len(columns)), make([]any, len(columns))
	for i := range values {
		places[i] = (*sql.RawBytes)(&values[i])
	}
	for found.Next() {
		if err := found.Scan(places...); err != nil {
			return t.failed(err)
		}
		if err := row(values); err != nil {
			return err
		}
	}
	return t.failed(found.Err())
}
