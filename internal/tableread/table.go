package tableread

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

const (
	// keysAtOnce are read by one statement, which may read a whole window: it is the price of an order without an index. They take
	// about 100 bytes each.
	keysAtOnce = 100_000
	// pageRows is how many rows a statement reads, and what is repeated after an interruption. A page's batches are limited in
	// bytes, so the memory is too.
	pageRows = 1000
)

// Key is a row's place in the order: its value in the column of [Table.Order], and its event ID. Only the table that returned it parses
// its texts. The zero value is before all rows.
type Key struct {
	At string `json:"created_at"`
	ID string `json:"event_id"`
}

// NewKey copies its texts.
func NewKey(at, id []byte) Key {
	text := string(append(append(make([]byte, 0, 64), at...), id...)) // one allocation
	return Key{text[:len(at)], text[len(at):]}
}

// Match selects rows by a text: the first of the columns that is neither NULL nor empty must have one of the values.
type Match struct {
	Columns []string
	Values  []string
}

// Filter selects rows. Its conditions are combined; the zero value selects every row.
type Filter struct {
	// From and To limit the row's time, To exclusively; zero: no limit.
	From, To time.Time
	// Last limits the column of [Table.Order], inclusively, see [Last]; "": no limit.
	Last string
	// IDs are event IDs as records have them.
	IDs []string
	// Matches are conditions on texts.
	Matches []Match
	// Where is a condition in the database's SQL, on the row's columns; "" for none.
	Where string
}

// Window is a part of the time in which the keys are looked for, Until exclusively; zero: no limit.
type Window struct{ Since, Until time.Time }

// Table is a table in a database, with the tables that retention has taken out of it. Only one goroutine may use it.
type Table interface {
	// Name returns the table's name.
	Name() string
	// Has reports whether it has a column.
	Has(column string) bool
	// Order returns the column by which rows are read; "" if there is none, so that they can be read by their IDs alone.
	Order() string
	// Bounds returns the bounds of its partitions, in order; none if it has none, or if rows are not read by their time.
	Bounds(ctx context.Context) ([]time.Time, error)
	// Orderly returns an error if a row that f may select has no place in the order.
	Orderly(ctx context.Context, f Filter) error
	// Last returns the greatest value of the order's column in a window; "" if there are no rows.
	Last(ctx context.Context, f Filter, w Window) (string, error)
	// Count counts rows.
	Count(ctx context.Context, f Filter) (int64, error)
	// Keys returns the keys of rows behind a key, in order, one for each row. If there are fewer than limit, no others follow.
	Keys(ctx context.Context, f Filter, w Window, after Key, limit int) ([]Key, error)
	// Sorts reports whether it compares IDs as their texts in keys compare.
	Sorts() bool
	// Rows reads the rows of a page, in order, in batches of limited size. One belongs to yield.
	Rows(ctx context.Context, f Filter, p Page, yield func(*cdc.Batch) error) error
}

// Each reads the rows behind a key and yields batches with rows. done is the last key of which all rows have been yielded before.
// yield is called without a batch once at the end. tied is called, once, if rows follow each other only by their IDs, which do not grow;
// nil: nobody asks.
func Each(ctx context.Context, t Table, f Filter, after Key, tied func(), yield func(b *cdc.Batch, done Key) error) error {
	return each(ctx, t, f, after, limits{keysAtOnce, pageRows}, tied, yield)
}

// Last returns the end of the rows that f selects now, to be [Filter.Last]: rows that are written later are behind it, but for those of
// transactions that are open. "" if there are no rows.
func Last(ctx context.Context, t Table, f Filter) (string, error) {
	bounds, err := t.Bounds(ctx)
	if err != nil {
		return "", err
	}
	for _, w := range slices.Backward(windows(bounds, f)) {
		if last, err := t.Last(ctx, f, w); err != nil || last != "" {
			return last, err
		}
	}
	return "", nil
}

// ties reports whether keys have rows of one place whose IDs tell nothing of their order. UUIDs of version 7 do.
func ties(keys []Key) bool {
	for i := 1; i < len(keys); i++ {
		id := strings.ReplaceAll(keys[i].ID, "-", "")
		if keys[i].At == keys[i-1].At && (len(id) != 32 || id[12] != '7') {
			return true
		}
	}
	return false
}

// limits are how many keys and rows a statement reads.
type limits struct{ keys, page int }

func each(ctx context.Context, t Table, f Filter, after Key, l limits, tied func(), yield func(b *cdc.Batch, done Key) error) error {
	if err := t.Orderly(ctx, f); err != nil {
		return err
	}
	bounds, err := t.Bounds(ctx)
	if err != nil {
		return err
	}
	done := after
	for _, w := range windows(bounds, f) {
		for more := true; more; {
			keys, err := t.Keys(ctx, f, w, done, l.keys)
			if err != nil {
				return err
			}
			more = len(keys) >= l.keys
			keys = slices.Compact(keys) // an ID may be there twice if no index prevents it
			if tied != nil && ties(keys) {
				tied()
				tied = nil
			}
			if done, err = read(ctx, t, f, pages(t, f, w, keys, l.page), done, yield); err != nil {
				return err
			}
		}
	}
	return yield(nil, done)
}

// read reads the rows of pages, and returns the last key.
func read(ctx context.Context, t Table, f Filter, pages []Page, done Key, yield func(*cdc.Batch, Key) error) (Key, error) {
	for _, p := range pages {
		if err := t.Rows(ctx, f, p, func(b *cdc.Batch) error { return yield(b, done) }); err != nil {
			return done, err
		}
		done = p.last()
	}
	return done, nil
}

// windows cuts the time that f selects at the bounds.
func windows(bounds []time.Time, f Filter) []Window {
	list := []Window{{f.From, f.To}}
	if len(f.IDs) > 0 { // found through the index
		return list
	}
	for _, at := range bounds {
		last := &list[len(list)-1]
		if !at.After(last.Since) || !f.To.IsZero() && !at.Before(f.To) {
			continue
		}
		last.Until = at
		list = append(list, Window{at, f.To})
	}
	return list
}

// Fetch yields the rows with an event ID.
func Fetch(ctx context.Context, t Table, id string, yield func(*cdc.Batch) error) error {
	f := Filter{IDs: []string{id}}
	keys, err := t.Keys(ctx, f, Window{}, Key{}, pageRows)
	if err != nil || len(keys) == 0 {
		return err
	}
	return t.Rows(ctx, f, Page{Keys: slices.Compact(keys)}, yield)
}
