package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/scan"
)

// conditions are the conditions of a query with their parameters, all as text.
type conditions struct {
	texts []string
	args  [][]byte
}

func (c *conditions) arg(value string) string {
	c.args = append(c.args, []byte(value))
	return "$" + strconv.Itoa(len(c.args))
}

func (c *conditions) add(format string, args ...any) {
	c.texts = append(c.texts, fmt.Sprintf(format, args...))
}

// where adds the conditions of a filter and of a window on a table that has these columns, or all if it is nil.
func (t *TableReader) where(c *conditions, f scan.Filter, w scan.Window, has []string) {
	for _, since := range []time.Time{f.From, w.Since} {
		if !since.IsZero() {
			c.add("%s >= %s::%s", t.at.sql, c.arg(t.timeText(since)), t.at.kind)
		}
	}
	for _, until := range []time.Time{f.To, w.Until} {
		if !until.IsZero() {
			c.add("%s < %s::%s", t.at.sql, c.arg(t.timeText(until)), t.at.kind)
		}
	}
	if by := t.order(&f); f.Last != "" {
		c.add("%s <= %s::%s", by.sql, c.arg(f.Last), by.kind)
	}
	if len(f.IDs) > 0 {
		c.add("%s = ANY(%s::text[]::%s[])", t.key.sql, c.arg(arrayText(f.IDs)), t.key.kind)
	}
	for _, m := range f.Matches {
		var columns []string
		for _, name := range m.Columns {
			if has != nil && !slices.Contains(has, name) {
				columns = append(columns, "NULL")
				continue
			}
			columns = append(columns, "NULLIF("+pgx.Identifier{name}.Sanitize()+"::text, '')")
		}
		c.add("COALESCE(%s) = ANY(%s::text[])", strings.Join(columns, ", "), c.arg(arrayText(m.Values)))
	}
	if f.Where != "" {
		c.add("(%s\n)", f.Where) // it may end in a comment
	}
}

func (t *TableReader) timeText(at time.Time) string {
	return t.batches.Zone.Shown(at).Format("2006-01-02 15:04:05.999999-07")
}

// arrayText writes an array as PostgreSQL reads it.
func arrayText(values []string) string {
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	var b strings.Builder
	b.WriteByte('{')
	for i, value := range values {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('"')
		_, _ = quote.WriteString(&b, value) // a Builder takes everything
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}

// selection is what is read of a table, given the columns that it has, or nil for all: conditions, and the selected columns.
type selection struct {
	where   func(c *conditions, has []string)
	columns func(has []string) string
}

// from returns the rows of the table, and of what was taken out and has rows of the window, as a table expression with its parameters.
func (t *TableReader) from(w scan.Window, p selection) (expression string, args [][]byte) {
	var c conditions
	var parts []string
	add := func(sql string, has []string) {
		c.texts = nil
		p.where(&c, has)
		parts = append(parts, "SELECT "+p.columns(has)+" FROM "+sql+c.clause())
	}
	add(t.o.SQL, nil)
	for i := range t.out {
		if t.out[i].within(w) {
			add(t.out[i].sql, t.out[i].columns)
		}
	}
	return "(" + strings.Join(parts, " UNION ALL ") + ") AS found", c.args
}

func (c *conditions) clause() string {
	if len(c.texts) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c.texts, " AND ")
}

// columns lists the table's columns; NULL for those that has lacks, unless it is nil.
func (t *TableReader) columns(has []string) string {
	list := make([]string, len(t.table.Columns))
	for i, c := range t.table.Columns {
		list[i] = pgx.Identifier{c.Name}.Sanitize()
		if has != nil && !slices.Contains(has, c.Name) { // added after the table was taken out
			list[i] = "NULL::" + t.types[i] + " AS " + list[i]
		}
	}
	return strings.Join(list, ", ")
}

// values returns the values that the column has for event IDs. What the server would say of a number that is too large is no error of an ID.
func (t *TableReader) values(ids []string) ([]string, error) {
	values, err := scan.Values(t.o.Table, t.o.IDPrefix, ids)
	bits, whole := map[string]int{"smallint": 16, "integer": 32, "bigint": 64}[t.key.kind]
	for _, value := range values {
		if _, err := strconv.ParseInt(value, 10, bits); whole && err != nil {
			return nil, scan.NotAnID(t.o.Table, t.o.Key, t.key.kind, strconv.Quote(value)+" is none")
		}
	}
	return values, err
}

// Count counts rows.
func (t *TableReader) Count(ctx context.Context, f scan.Filter) (n int64, err error) {
	if f.IDs, err = t.values(f.IDs); err != nil {
		return 0, err
	}
	w := scan.Window{Since: f.From, Until: f.To}
	err = t.whole(ctx, func() error {
		from, args := t.from(w, selection{
			func(c *conditions, has []string) { t.where(c, f, w, has) },
			func([]string) string { return "1" },
		})
		return t.query(ctx, "SELECT count(*) FROM "+from, args, nil, func(values [][]byte) (err error) {
			n, err = strconv.ParseInt(string(values[0]), 10, 64)
			return err
		})
	})
	return n, err
}

// CountWhere counts the rows that a condition selects. It must be one without brackets around it, too: with them others could be added.
func (t *TableReader) CountWhere(ctx context.Context, where string) (n int64, err error) {
	_, err = t.conn.PgConn().ExecParams(ctx, "SELECT FROM "+t.o.SQL+" WHERE "+where+"\nLIMIT 0", nil, nil, nil, nil).Close()
	if err == nil {
		n, err = t.Count(ctx, scan.Filter{Where: where})
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code != stateInsufficientPrivilege && slices.Contains([]string{"22", "42", "0A"}, pg.Code[:2]) {
		return 0, scan.BadCondition(t.o.Table, "PostgreSQL: "+pg.Message)
	}
	return n, err
}

// whole runs a query on the table and on what was taken out of it.
func (t *TableReader) whole(ctx context.Context, query func() error) error {
	return scan.Whole(ctx, t.refresh, func() error { return t.reading(ctx, query) })
}

// Keys returns the keys of rows behind a key, in order.
func (t *TableReader) Keys(ctx context.Context, f scan.Filter, w scan.Window, after scan.Key, limit int) (keys []scan.Key, err error) {
	err = t.places(ctx, f, w, after, "row_at::text, row_id::text", fmt.Sprintf("ORDER BY found.row_at, found.row_id LIMIT %d", limit), func(values [][]byte) {
		keys = append(keys, scan.NewKey(values[0], values[1]))
	}, func() { keys = nil })
	return keys, err
}

// Last returns the greatest value of the order's column.
func (t *TableReader) Last(ctx context.Context, f scan.Filter, w scan.Window) (last string, err error) {
	err = t.places(ctx, f, w, scan.Key{}, "row_at::text", "ORDER BY found.row_at DESC LIMIT 1", func(values [][]byte) { last = string(values[0]) }, func() { last = "" })
	return last, err
}

// places reads of rows behind a key what is selected, of row_at and row_id. It calls begin before the first row, and again if it begins anew.
func (t *TableReader) places(ctx context.Context, f scan.Filter, w scan.Window, after scan.Key, selected, end string, row func([][]byte), begin func()) (err error) {
	if f.IDs, err = t.values(f.IDs); err != nil {
		return err
	}
	by := t.order(&f)
	return t.whole(ctx, func() error {
		begin()
		from, args := t.from(w, selection{func(c *conditions, has []string) {
			t.where(c, f, w, has)
			t.placed(c, &by)
			t.behind(c, &by, after)
		}, func([]string) string { return by.sql + " AS row_at, " + t.key.sql + " AS row_id" }})
		return t.query(ctx, "SELECT "+selected+" FROM "+from+" "+end, args, nil, func(values [][]byte) error {
			row(values)
			return nil
		})
	})
}

// placed leaves out rows that have no place in the order. There were none at first.
func (t *TableReader) placed(c *conditions, by *column) {
	for _, column := range []*column{by, &t.key} {
		if column.nullable {
			c.add("%s IS NOT NULL", column.sql)
		}
	}
}

// behind adds the condition for rows behind a key. The first one is compared with the bounds of partitions.
func (t *TableReader) behind(c *conditions, by *column, after scan.Key) {
	if after == (scan.Key{}) {
		return
	}
	at, id := c.arg(after.At)+"::"+by.kind, c.arg(after.ID)+"::"+t.key.kind
	c.add("%s >= %s", by.sql, at)
	c.add("(%s, %s) > (%s, %s)", by.sql, t.key.sql, at, id)
}

// Sorts reports whether the server compares IDs as their texts compare: UUIDs.
func (t *TableReader) Sorts() bool { return t.key.kind == "uuid" }

// Rows reads the rows of a page.
func (t *TableReader) Rows(ctx context.Context, f scan.Filter, p scan.Page, yield func(*cdc.Batch) error) error {
	return t.batches.Read(p, func(piece scan.Page, keep func(*cdc.Batch) error) (found int, err error) {
		err = t.reading(ctx, func() (err error) {
			found, err = t.page(ctx, f, piece, keep)
			return err
		})
		return found, err
	}, func() (bool, error) { return t.refresh(ctx) }, yield)
}

// page returns how many of the keys it has found.
func (t *TableReader) page(ctx context.Context, f scan.Filter, p scan.Page, yield func(*cdc.Batch) error) (found int, err error) {
	by := t.order(&f)
	from, args := t.from(p.Window, selection{func(c *conditions, has []string) {
		t.where(c, scan.Filter{Matches: f.Matches, Where: f.Where}, scan.Window{}, has)
		t.within(c, &by, p)
	}, t.columns})
	order := by.sql + ", " + t.key.sql
	if p.Ascending {
		order = t.key.sql + ", " + by.sql // that of the index
	}
	key := t.table.Index(t.o.Key)
	form, b := t.table.Columns[key].Form, t.batches.New(t.table, len(p.Keys))
	send := func() error {
		if err := t.batches.Complete(b); err != nil {
			return err
		}
		full := b
		b = t.batches.New(t.table, len(p.Keys)-found)
		return yield(full)
	}
	var id []byte
	err = t.query(ctx, "SELECT * FROM "+from+" ORDER BY "+order, args, t.formats, func(values [][]byte) error {
		var err error
		if id, err = form.AppendText(id[:0], values[key]); err == nil && found < len(p.Keys) && string(id) == p.Keys[found].ID {
			found++
		}
		appendRow(b, values)
		if !t.batches.Full(b) {
			return nil
		}
		return send()
	})
	if err == nil && b.Rows() > 0 {
		err = send()
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && strings.Contains(statesUnreadable, pg.Code) {
		err = scan.Unreadable(t.o.Table, t.o.IDPrefix+p.Keys[0].ID, pg.Message)
	}
	return found, err
}

// within adds the condition for the rows of a page. The first one is compared with the bounds of partitions.
func (t *TableReader) within(c *conditions, by *column, p scan.Page) {
	first, last := p.Keys[0], p.Keys[len(p.Keys)-1]
	c.add("%s BETWEEN %s::%s AND %s::%[3]s", by.sql, c.arg(first.At), by.kind, c.arg(last.At))
	place := func(key scan.Key) string {
		return "(" + c.arg(key.At) + "::" + by.kind + ", " + c.arg(key.ID) + "::" + t.key.kind + ")"
	}
	c.add("(%s, %s) BETWEEN %s AND %s", by.sql, t.key.sql, place(first), place(last))
	if p.Greatest != "" {
		c.add("%s BETWEEN %s::%s AND %s::%[3]s", t.key.sql, c.arg(p.Least), t.key.kind, c.arg(p.Greatest))
		return
	}
	ids := make([]string, len(p.Keys))
	for i, key := range p.Keys {
		ids[i] = key.ID
	}
	c.add("%s = ANY(%s::text[]::%s[])", t.key.sql, c.arg(arrayText(ids)), t.key.kind)
}

func appendRow(b *cdc.Batch, values [][]byte) {
	for _, value := range values {
		if value == nil {
			b.Spans = append(b.Spans, cdc.Span{Len: -1})
			continue
		}
		b.Spans = append(b.Spans, cdc.Span{Off: int32(len(b.Arena)), Len: int32(len(value))})
		b.Arena = append(b.Arena, value...)
	}
}

// query runs a query and calls row for each row, whose values are valid until it returns.
func (t *TableReader) query(ctx context.Context, sql string, args [][]byte, formats []int16, row func([][]byte) error) error {
	result := t.conn.PgConn().ExecParams(ctx, sql, args, nil, nil, formats)
	for result.NextRow() {
		if err := row(result.Values()); err != nil {
			closeResult(result)
			return err
		}
	}
	if _, err := result.Close(); err != nil {
		return t.failed(err)
	}
	return nil
}

// closeResult reads the rest, which is at most a page.
func closeResult(result *pgconn.ResultReader) { _, _ = result.Close() }
