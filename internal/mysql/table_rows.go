package mysql

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/scan"
)

// conditions are the conditions of a query with their parameters.
type conditions struct {
	texts []string
	args  []any
}

func (c *conditions) add(text string, args ...any) {
	c.texts, c.args = append(c.texts, text), append(c.args, args...)
}

func placeholders(n int) string { return "(?" + strings.Repeat(", ?", n-1) + ")" }

// where adds the conditions of a filter and of a window on a table that has these columns, or all if it is nil.
func (t *TableReader) where(c *conditions, f scan.Filter, w scan.Window, has []string) (err error) {
	for _, since := range []time.Time{f.From, w.Since} {
		if !since.IsZero() {
			c.add(t.at.sql+" >= ?", t.timeText(since))
		}
	}
	for _, until := range []time.Time{f.To, w.Until} {
		if !until.IsZero() {
			c.add(t.at.sql+" < ?", t.timeText(until))
		}
	}
	if by := t.order(&f); f.Last != "" {
		last, err := by.cell.keyArg(f.Last)
		if err != nil {
			return fmt.Errorf("read table %s: end %q: %w", t.o.Table, f.Last, err)
		}
		c.add(by.sql+" <= ?", last)
	}
	if len(f.IDs) > 0 {
		values, err := scan.Values(t.o.Table, t.o.IDPrefix, f.IDs)
		if err != nil {
			return err
		}
		ids := make([]any, len(values))
		for i, id := range values {
			if ids[i], err = t.key.cell.idArg(id); err != nil {
				return scan.NotAnID(t.o.Table, t.o.Key, t.key.cell.idKind(), strconv.Quote(id)+" is none")
			}
		}
		c.add(t.key.sql+" IN "+placeholders(len(ids)), ids...)
	}
	for _, m := range f.Matches {
		columns, values := make([]string, len(m.Columns)), make([]any, len(m.Values))
		for i, name := range m.Columns {
			columns[i] = "NULL"
			if has == nil || slices.Contains(has, name) {
				columns[i] = "NULLIF(" + t.cells[t.table.Index(name)].text() + ", '')"
			}
		}
		for i, value := range m.Values {
			values[i] = []byte(value)
		}
		c.add("COALESCE("+strings.Join(columns, ", ")+") IN "+placeholders(len(values)), values...)
	}
	if f.Where != "" {
		c.add("(" + f.Where + "\n)") // it may end in a comment
	}
	return nil
}

func (t *TableReader) timeText(at time.Time) string {
	return t.batches.Zone.Shown(at).Format("2006-01-02 15:04:05.999999")
}

// selection is what is read of a table, given the columns that it has, or nil for all: conditions, and the selected columns.
type selection struct {
	where   func(c *conditions, has []string) error
	columns func(has []string) string
}

// from returns the rows of the table, and of what was taken out and has rows of the window, as a table expression with its parameters.
func (t *TableReader) from(w scan.Window, s selection) (expression string, args []any, err error) {
	var c conditions
	var parts []string
	add := func(sql string, has []string) error {
		c.texts = nil
		if err := s.where(&c, has); err != nil {
			return err
		}
		parts = append(parts, "SELECT "+s.columns(has)+" FROM "+sql+c.clause())
		return nil
	}
	err = add(t.sql, nil)
	for i := range t.out {
		if err == nil && t.out[i].within(w) {
			err = add(t.out[i].sql, t.out[i].columns)
		}
	}
	return "(" + strings.Join(parts, " UNION ALL ") + ") AS found", c.args, err
}

func (c *conditions) clause() string {
	if len(c.texts) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c.texts, " AND ")
}

// columns lists the table's columns, and those that give the order; NULL for those that has lacks, unless it is nil.
func (t *TableReader) columns(by *column, has []string) string {
	list := make([]string, len(t.table.Columns), len(t.table.Columns)+2)
	for i, c := range t.table.Columns {
		list[i] = t.cells[i].sql + " AS " + QuoteName("c"+strconv.Itoa(i))
		if has != nil && !slices.Contains(has, c.Name) { // added after the table was taken out
			list[i] = "NULL AS " + QuoteName("c"+strconv.Itoa(i))
		}
	}
	return strings.Join(append(list, by.sql+" AS row_at", t.key.sql+" AS row_id"), ", ")
}

// Count counts rows.
func (t *TableReader) Count(ctx context.Context, f scan.Filter) (n int64, err error) {
	w := scan.Window{Since: f.From, Until: f.To}
	err = t.whole(ctx, func() error {
		from, args, err := t.from(w, selection{
			func(c *conditions, has []string) error { return t.where(c, f, w, has) },
			func([]string) string { return "1" },
		})
		if err != nil {
			return err
		}
		return t.query(ctx, "SELECT COUNT(*) FROM "+from, args, func(values []sql.RawBytes) (err error) {
			n, err = strconv.ParseInt(string(values[0]), 10, 64)
			return err
		})
	})
	return n, err
}

// whole runs a query on the table and on what was taken out of it.
func (t *TableReader) whole(ctx context.Context, query func() error) error {
	return scan.Whole(ctx, t.refresh, func() error { return scan.Again(ctx, t.refresh, query()) })
}

// Keys returns the keys of rows behind a key, in order.
func (t *TableReader) Keys(ctx context.Context, f scan.Filter, w scan.Window, after scan.Key, limit int) (keys []scan.Key, err error) {
	err = t.places(ctx, f, w, after, fmt.Sprintf("ORDER BY row_at, row_id LIMIT %d", limit), func(key scan.Key) { keys = append(keys, key) }, func() { keys = nil })
	return keys, err
}

// Last returns the greatest value of the order's column.
func (t *TableReader) Last(ctx context.Context, f scan.Filter, w scan.Window) (last string, err error) {
	err = t.places(ctx, f, w, scan.Key{}, "ORDER BY row_at DESC LIMIT 1", func(key scan.Key) { last = key.At }, func() { last = "" })
	return last, err
}

// places reads the keys of rows behind a key. It calls begin before the first one, and again if it begins anew.
func (t *TableReader) places(ctx context.Context, f scan.Filter, w scan.Window, after scan.Key, end string, row func(scan.Key), begin func()) error {
	by := t.order(&f)
	return t.whole(ctx, func() error {
		begin()
		from, args, err := t.from(w, selection{func(c *conditions, has []string) error {
			if err := t.where(c, f, w, has); err != nil {
				return err
			}
			t.placed(c, by)
			return t.behind(c, by, after)
		}, func([]string) string { return by.sql + " AS row_at, " + t.key.sql + " AS row_id" }})
		if err != nil {
			return err
		}
		return t.query(ctx, "SELECT "+by.cell.keyText("row_at")+", "+t.key.cell.keyText("row_id")+" FROM "+from+" "+end, args, func(values []sql.RawBytes) error {
			row(scan.NewKey(values[0], values[1]))
			return nil
		})
	})
}

// placed leaves out rows that have no place in the order. There were none at first.
func (t *TableReader) placed(c *conditions, by *column) {
	for _, column := range []*column{by, &t.key} {
		if column.nullable {
			c.add(column.sql + " IS NOT NULL")
		}
	}
}

// behind adds the condition for rows behind a key. The first one is compared with the bounds of partitions.
func (t *TableReader) behind(c *conditions, by *column, after scan.Key) error {
	if after == (scan.Key{}) {
		return nil
	}
	at, err := by.cell.keyArg(after.At)
	if err != nil {
		return fmt.Errorf("read table %s: key %q: %w", t.o.Table, after.At, err)
	}
	id, err := t.key.cell.keyArg(after.ID)
	if err != nil {
		return fmt.Errorf("read table %s: key %q: %w", t.o.Table, after.ID, err)
	}
	c.add(by.sql+" >= ?", at)
	c.add("("+by.sql+" > ? OR "+t.key.sql+" > ?)", at, id)
	return nil
}

// Sorts reports whether the server compares IDs as their texts in keys compare: bytes.
func (t *TableReader) Sorts() bool { return t.key.cell.hex }

// Rows reads the rows of a page.
func (t *TableReader) Rows(ctx context.Context, f scan.Filter, p scan.Page, yield func(*cdc.Batch) error) error {
	return t.batches.Read(p, func(piece scan.Page, keep func(*cdc.Batch) error) (int, error) {
		found, err := t.page(ctx, f, piece, keep)
		return found, scan.Again(ctx, t.refresh, err)
	}, func() (bool, error) { return t.refresh(ctx) }, yield)
}

// page returns how many of the keys it has found.
func (t *TableReader) page(ctx context.Context, f scan.Filter, p scan.Page, yield func(*cdc.Batch) error) (found int, err error) {
	ids := make([]any, len(p.Keys))
	for i, key := range p.Keys {
		if ids[i], err = t.key.cell.keyArg(key.ID); err != nil {
			return 0, fmt.Errorf("read table %s: key %q: %w", t.o.Table, key.ID, err)
		}
	}
	by := t.order(&f)
	from, args, err := t.from(p.Window, selection{func(c *conditions, has []string) error {
		if err := t.within(c, by, p, ids); err != nil {
			return err
		}
		return t.where(c, scan.Filter{Matches: f.Matches, Where: f.Where}, scan.Window{}, has)
	}, func(has []string) string { return t.columns(by, has) }})
	if err != nil {
		return 0, err
	}
	order := "row_at, row_id"
	if p.Ascending {
		order = "row_id, row_at" // that of the index
	}
	key, b := t.table.Index(t.o.Key), t.batches.New(t.table, len(p.Keys))
	send := func() error {
		if err := t.batches.Complete(b); err != nil {
			return err
		}
		full := b
		b = t.batches.New(t.table, len(p.Keys)-found)
		return yield(full)
	}
	err = t.query(ctx, "SELECT * FROM "+from+" ORDER BY "+order, args, func(values []sql.RawBytes) error {
		if found < len(ids) && sameID(ids[found], values[key]) {
			found++
		}
		if err := t.appendRow(b, values); err != nil {
			return err
		}
		if !t.batches.Full(b) {
			return nil
		}
		return send()
	})
	if err == nil && b.Rows() > 0 {
		err = send()
	}
	return found, err
}

func sameID(id any, raw []byte) bool {
	if text, ok := id.(string); ok {
		return text == string(raw)
	}
	b, _ := id.([]byte)
	return bytes.Equal(b, raw)
}

// within adds the condition for the rows of a page, whose IDs are ids. The first one is compared with the bounds of partitions.
func (t *TableReader) within(c *conditions, by *column, p scan.Page, ids []any) error {
	limits := []struct {
		of   *column
		text string
		arg  any
	}{{of: by, text: p.Keys[0].At}, {of: by, text: p.Keys[len(p.Keys)-1].At}, {of: &t.key, text: p.Least}, {of: &t.key, text: p.Greatest}}
	for i := range limits {
		l := &limits[i]
		var err error
		if l.arg, err = l.of.cell.keyArg(l.text); err != nil {
			return fmt.Errorf("read table %s: key %q: %w", t.o.Table, l.text, err)
		}
	}
	first, last := limits[0].arg, limits[1].arg
	c.add(by.sql+" BETWEEN ? AND ?", first, last)
	c.add("("+by.sql+" > ? OR "+t.key.sql+" >= ?)", first, ids[0])
	c.add("("+by.sql+" < ? OR "+t.key.sql+" <= ?)", last, ids[len(ids)-1])
	if p.Greatest == "" {
		c.add(t.key.sql+" IN "+placeholders(len(ids)), ids...)
		return nil
	}
	c.add(t.key.sql+" BETWEEN ? AND ?", limits[2].arg, limits[3].arg)
	return nil
}

func (t *TableReader) appendRow(b *cdc.Batch, values []sql.RawBytes) (err error) {
	for i := range t.cells {
		if values[i] == nil {
			b.Spans = append(b.Spans, cdc.Span{Len: -1})
			continue
		}
		start := len(b.Arena)
		if b.Arena, err = t.cells[i].append(b.Arena, values[i]); err != nil {
			return fmt.Errorf("read column %s of %s: %w", t.table.Columns[i].Name, t.table, err)
		}
		b.Spans = append(b.Spans, cdc.Span{Off: int32(start), Len: int32(len(b.Arena) - start)})
	}
	return nil
}
