package tableread

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Reader reads a table and what was taken out of it through a database's driver. It is a [Table], but for the bounds.
type Reader struct {
	Driver  Driver
	Dialect Dialect
	Options ReadOptions
	// Table has the columns that are read, and Cells their SQL.
	Table *cdc.Table
	Cells []Cell
	// Key has the ID, At the time, By the order. At and By may be absent.
	Key, At, By Column
	// Out is what had been taken out at the last [Reader.Refresh].
	Out     []TakenOut
	Batches Batches
}

// Choose chooses those of the table's columns that rows are read by.
func (r *Reader) Choose(columns []Column) error {
	o := &r.Options
	var counted Column
	for i := range columns {
		c := &columns[i]
		c.Index = r.Table.Index(c.Name)
		if c.Name == o.Key {
			r.Key = *c
		}
		if c.Name == o.OrderBy {
			r.By = *c
		}
		if o.Counted && c.Counted && !c.Nullable && (counted.Name == "" || c.Name == o.Key) {
			counted = *c
		}
		if c.Name == o.At && c.Time != "" {
			r.At = *c
			r.At.Kind = c.Time
		}
	}
	switch {
	case r.Key.Name == "" || r.Key.Index < 0:
		return NoID(o.Table, o.Key)
	case o.OrderBy != "" && r.By.Name == "":
		return NoOrderColumn(o.Table, o.OrderBy)
	case o.OrderBy == "" && counted.Name != "":
		r.By = counted
	case o.OrderBy == "":
		r.By = r.At
	}
	r.Batches.Key, r.Batches.At = r.Key.Index, r.Table.Index(r.At.Name)
	if r.At.Time == r.Dialect.LocalTime {
		r.Batches.Zone = o.Zone
	}
	return nil
}

// Name returns the table's name.
func (r *Reader) Name() string { return r.Options.Table }

// Order returns the column by which rows are read.
func (r *Reader) Order() string { return r.By.Name }

// Has reports whether the table has a column.
func (r *Reader) Has(column string) bool { return r.Table.Index(column) >= 0 }

// Sorts reports whether the server compares IDs as their texts in keys compare.
func (r *Reader) Sorts() bool { return r.Key.Sorts }

// Unique reports whether a unique index keeps the IDs of a foreign table apart.
func (r *Reader) Unique() bool { return r.Key.Unique }

// order returns the column by which the rows of a filter are read. Of rows that are chosen by their IDs one may have no place.
func (r *Reader) order(f *Filter) *Column {
	if len(f.IDs) > 0 && (r.By.Name == "" || r.By.Nullable) {
		return &r.Key
	}
	return &r.By
}

// Orderly returns an error if a row that f may select has no place in the order.
func (r *Reader) Orderly(ctx context.Context, f Filter) error {
	columns := []*Column{r.order(&f)}
	switch timed := !f.From.IsZero() || !f.To.IsZero(); {
	case columns[0].Name == "":
		return NoOrder(r.Options.Table)
	case timed && r.At.Name == "":
		return NoTime(r.Options.Table)
	case timed:
		columns = append(columns, &r.At)
	}
	if len(f.IDs) == 0 {
		columns = append(columns, &r.Key)
	}
	untimed := f
	untimed.From, untimed.To, untimed.Last = time.Time{}, time.Time{}, "" // NULL is on no side of them
	for _, column := range columns {
		if !column.Nullable {
			continue
		}
		var c Conditions
		r.where(&c, untimed, Window{}, nil)
		c.add("%s IS NULL", column.SQL)
		found := false
		err := r.reading(ctx, func() error {
			return r.query(ctx, "SELECT 1 FROM "+r.Options.SQL+c.clause()+" LIMIT 1", &c, nil, func([][]byte) error {
				found = true
				return nil
			})
		})
		switch {
		case errors.Is(err, ErrAgain):
			return r.Orderly(ctx, f)
		case err != nil:
			return err
		case found:
			return NoPlace(r.Options.Table, column.Name)
		}
	}
	return nil
}

// Refresh reads which tables were taken out, and reports whether they are others than before.
func (r *Reader) Refresh(ctx context.Context) (changed bool, err error) {
	if r.Options.TakenOut == "" {
		return false, nil
	}
	found, err := r.Driver.TakenOut(ctx)
	if err != nil {
		return false, err
	}
	for i := range found {
		t := &found[i]
		at := slices.IndexFunc(r.Out, func(o TakenOut) bool { return o.ID == t.ID })
		if at >= 0 && !t.Spare {
			t.Since, t.Until = r.Out[at].Since, r.Out[at].Until
			if t.Columns == nil {
				t.Columns = r.Out[at].Columns
			}
			continue
		}
		if err := r.Driver.Span(ctx, t); errors.Is(err, ErrGone) {
			return true, nil // the next look tells
		} else if err != nil {
			return false, err
		}
		changed = changed || at < 0 || !t.Since.Equal(r.Out[at].Since) || !t.Until.Equal(r.Out[at].Until)
	}
	changed = changed || len(found) < len(r.Out)
	r.Out = found
	return changed, nil
}

// ErrAgain says that a statement is to be run again.
var ErrAgain = errors.New("run the statement again")

// reading calls read, which reads the table. It returns [ErrAgain] if a table that was taken out is gone: it is to be called again.
func (r *Reader) reading(ctx context.Context, read func() error) error {
	err := r.Driver.Reading(ctx, read)
	if !errors.Is(err, ErrGone) {
		return err
	}
	if changed, failed := r.Refresh(ctx); failed != nil || changed {
		return cmp.Or(failed, ErrAgain)
	}
	return err
}

// whole runs a query on the table and on what was taken out of it, and runs it again if that has changed before the query had its lock:
// the rows of another table that was taken out were in neither.
func (r *Reader) whole(ctx context.Context, query func() error) error {
	_, err := r.Refresh(ctx)
	for changed := true; err == nil && changed; {
		if err = r.reading(ctx, query); err == nil {
			changed, err = r.Refresh(ctx)
		} else if errors.Is(err, ErrAgain) {
			err = nil
		}
	}
	return err
}
