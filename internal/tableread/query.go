package tableread

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Conditions are the conditions of a query with its parameters.
type Conditions struct {
	texts []string
	args  []any
	err   error // of the parameters
}

// Arg adds a parameter and returns its number, from 1 on.
func (c *Conditions) Arg(value any) int {
	c.args = append(c.args, value)
	return len(c.args)
}

// Fail has the query return err in place of rows.
func (c *Conditions) Fail(err error) { c.err = cmp.Or(c.err, err) }

func (c *Conditions) add(format string, args ...any) {
	c.texts = append(c.texts, fmt.Sprintf(format, args...))
}

func (c *Conditions) clause() string {
	if len(c.texts) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c.texts, " AND ")
}

// query runs a query with the parameters of c.
func (r *Reader) query(ctx context.Context, sql string, c *Conditions, p *Page, row func(values [][]byte) error) error {
	if c.err != nil {
		return c.err
	}
	return r.Driver.Query(ctx, sql, c.args, p, row)
}

// where adds the conditions of a filter and of a window on a table that has these columns, or all if it is nil.
func (r *Reader) where(c *Conditions, f Filter, w Window, has []string) {
	for i, at := range []time.Time{f.From, w.Since, f.To, w.Until} {
		if i < 2 && r.At.Time == "date" { // MySQL compares a day as its midnight
			at = at.Truncate(24 * time.Hour)
		}
		if !at.IsZero() {
			c.add("%s %s %s", r.At.SQL, [...]string{">=", ">=", "<", "<"}[i], r.Driver.Param(c, &r.At, r.Batches.Zone.Shown(at).Format(r.Dialect.Time)))
		}
	}
	if by := r.order(&f); f.Last != "" {
		c.add("%s <= %s", by.SQL, r.Driver.Param(c, by, f.Last))
	}
	if len(f.IDs) > 0 {
		c.add("%s %s", r.Key.SQL, r.Driver.Among(c, &r.Key, r.keysOf(c, f.IDs)))
	}
	for _, m := range f.Matches {
		columns := make([]string, len(m.Columns))
		for i, name := range m.Columns {
			columns[i] = "NULL"
			if has == nil || slices.Contains(has, name) {
				columns[i] = "NULLIF(" + r.Cells[r.Table.Index(name)].Text + ", '')"
			}
		}
		c.add("COALESCE(%s) %s", strings.Join(columns, ", "), r.Driver.Among(c, &Column{}, m.Values))
	}
	if f.Where != "" {
		c.add("(%s\n)", f.Where) // it may end in a comment
	}
}

// keysOf returns the texts that keys have of event IDs.
func (r *Reader) keysOf(c *Conditions, ids []string) []string {
	values, err := Values(r.Options.Table, r.Options.IDPrefix, ids)
	if err != nil {
		c.Fail(err)
		return ids
	}
	for i, value := range values {
		var ok bool
		if values[i], ok = r.Driver.KeyOf(value); !ok {
			c.Fail(NotAnID(r.Options.Table, r.Key.Name, r.Key.Kind, strconv.Quote(value)+" is none"))
		}
	}
	return values
}

// from returns the rows of the table, and of what was taken out and has rows of the window, as a table expression with its parameters.
// where and columns get the columns that a table has, or nil for all: they add its conditions, and return what is selected of it.
func (r *Reader) from(w Window, where func(c *Conditions, has []string), columns func(has []string) string) (expression string, c *Conditions) {
	c = new(Conditions)
	var parts []string
	add := func(sql string, has []string) {
		c.texts = nil
		where(c, has)
		parts = append(parts, "SELECT "+columns(has)+" FROM "+sql+c.clause())
	}
	add(r.Options.SQL, nil)
	for i := range r.Out {
		if r.Out[i].within(w) {
			add(r.Out[i].SQL, r.Out[i].Columns)
		}
	}
	return "(" + strings.Join(parts, " UNION ALL ") + ") AS found", c
}

// Count counts rows.
func (r *Reader) Count(ctx context.Context, f Filter) (n int64, err error) {
	w := Window{Since: f.From, Until: f.To}
	err = r.whole(ctx, func() error {
		from, c := r.from(w, func(c *Conditions, has []string) { r.where(c, f, w, has) }, func([]string) string { return "1" })
		return r.query(ctx, "SELECT count(*) FROM "+from, c, nil, func(values [][]byte) (err error) {
			n, err = strconv.ParseInt(string(values[0]), 10, 64)
			return err
		})
	})
	return n, err
}

// Keys returns the keys of rows behind a key, in order.
func (r *Reader) Keys(ctx context.Context, f Filter, w Window, after Key, limit int) ([]Key, error) {
	return r.places(ctx, f, w, after, fmt.Sprintf("found.row_at, found.row_id LIMIT %d", limit))
}

// Last returns the greatest value of the order's column.
func (r *Reader) Last(ctx context.Context, f Filter, w Window) (string, error) {
	keys, err := r.places(ctx, f, w, Key{}, "found.row_at DESC LIMIT 1")
	if err != nil || len(keys) == 0 {
		return "", err
	}
	return keys[0].At, nil
}

// places reads the keys of rows behind a key.
func (r *Reader) places(ctx context.Context, f Filter, w Window, after Key, order string) (keys []Key, err error) {
	by := r.order(&f)
	err = r.whole(ctx, func() error {
		keys = nil
		from, c := r.from(w, func(c *Conditions, has []string) {
			r.where(c, f, w, has)
			for _, column := range []*Column{by, &r.Key} {
				if column.Nullable { // a row without a place in the order is left out; there was none at first
					c.add("%s IS NOT NULL", column.SQL)
				}
			}
			r.behind(c, by, after)
		}, func([]string) string { return by.SQL + " AS row_at, " + r.Key.SQL + " AS row_id" })
		selected := fmt.Sprintf(by.KeyText+", "+r.Key.KeyText, "row_at", "row_id")
		return r.query(ctx, "SELECT "+selected+" FROM "+from+" ORDER BY "+order, c, nil, func(values [][]byte) error {
			keys = append(keys, NewKey(values[0], values[1]))
			return nil
		})
	})
	return keys, err
}

// behind adds the condition for rows behind a key. The first one is compared with the bounds of partitions.
func (r *Reader) behind(c *Conditions, by *Column, after Key) {
	if after == (Key{}) {
		return
	}
	c.add("%s >= %s", by.SQL, r.Driver.Param(c, by, after.At))
	r.compare(c, by, ">", after)
}

// compare adds the condition that a row's place is >, >= or <= a key, given the condition on the first part of the place.
func (r *Reader) compare(c *Conditions, by *Column, op string, key Key) {
	at, id := r.Driver.Param(c, by, key.At), r.Driver.Param(c, &r.Key, key.ID)
	if r.Dialect.Tuples {
		c.add("(%s, %s) %s (%s, %s)", by.SQL, r.Key.SQL, op, at, id)
		return
	}
	c.add("(%s %s %s OR %s %s %s)", by.SQL, op[:1], at, r.Key.SQL, op, id)
}

// within adds the condition for the rows of a page. The first one is compared with the bounds of partitions.
func (r *Reader) within(c *Conditions, by *Column, p Page) {
	between := func(column *Column, least, greatest string) {
		c.add("%s BETWEEN %s AND %s", column.SQL, r.Driver.Param(c, column, least), r.Driver.Param(c, column, greatest))
	}
	between(by, p.Keys[0].At, p.last().At)
	r.compare(c, by, ">=", p.Keys[0])
	r.compare(c, by, "<=", p.last())
	if p.Greatest != "" {
		between(&r.Key, p.Least, p.Greatest)
		return
	}
	ids := make([]string, len(p.Keys))
	for i, key := range p.Keys {
		ids[i] = key.ID
	}
	c.add("%s %s", r.Key.SQL, r.Driver.Among(c, &r.Key, ids))
}

// columns lists the table's columns, and those of the order, if they are not to be sorted by as they are; what stands for a column that
// has lacks, unless it is nil.
func (r *Reader) columns(by *Column, has []string) string {
	list := make([]string, len(r.Cells), len(r.Cells)+2)
	for i := range r.Cells {
		list[i] = r.Cells[i].SQL
		if has != nil && !slices.Contains(has, r.Table.Columns[i].Name) { // added after the table was taken out
			list[i] = r.Cells[i].Absent
		}
	}
	if r.Dialect.Beside {
		list = append(list, by.SQL+" AS row_at", r.Key.SQL+" AS row_id")
	}
	return strings.Join(list, ", ")
}
