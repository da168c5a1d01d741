package tableread

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// fakeTable does with rows in memory what the SQL of the readers does.
type fakeTable struct {
	Table

	rows   []Key // one for each row, in order
	bounds []time.Time
	sorts  bool
	ranges int // pages that were read as a range
	fail   error
}

const layout = "2006-01-02 15:04:05.000000"

func (t *fakeTable) Bounds(context.Context) ([]time.Time, error) { return t.bounds, nil }

func (t *fakeTable) Orderly(context.Context, Filter) error { return nil }

func (t *fakeTable) Last(_ context.Context, _ Filter, w Window) (last string, err error) {
	for _, row := range t.rows {
		if within(w, row) {
			last = row.At
		}
	}
	return last, nil
}

func (t *fakeTable) Sorts() bool { return t.sorts }

func (t *fakeTable) Keys(_ context.Context, _ Filter, w Window, after Key, limit int) (keys []Key, err error) {
	for _, row := range t.rows {
		if within(w, row) && compare(row, after) > 0 && len(keys) < limit {
			keys = append(keys, row)
		}
	}
	return keys, t.fail
}

func (t *fakeTable) Rows(_ context.Context, _ Filter, p Page, yield func(*cdc.Batch) error) error {
	var found []Key
	first, last := p.Keys[0], p.last()
	for _, row := range t.rows {
		listed := slices.ContainsFunc(p.Keys, func(k Key) bool { return k.ID == row.ID })
		if p.Greatest != "" {
			listed = row.ID >= p.Least && row.ID <= p.Greatest
		}
		if listed && within(p.Window, row) && compare(row, first) >= 0 && compare(row, last) <= 0 {
			found = append(found, row)
		}
	}
	if p.Greatest != "" {
		t.ranges++
	}
	if p.Ascending {
		slices.SortStableFunc(found, func(a, b Key) int { return cmp.Or(strings.Compare(a.ID, b.ID), strings.Compare(a.At, b.At)) })
	}
	for rows := range slices.Chunk(found, 2) {
		if err := yield(batch(rows)); err != nil {
			return err
		}
	}
	return nil
}

func within(w Window, row Key) bool {
	return (w.Since.IsZero() || row.At >= w.Since.Format(layout)) && (w.Until.IsZero() || row.At < w.Until.Format(layout))
}

func compare(a, b Key) int { return cmp.Or(strings.Compare(a.At, b.At), strings.Compare(a.ID, b.ID)) }

// batch has a row for each key, whose only value is the key.
func batch(keys []Key) *cdc.Batch {
	b := &cdc.Batch{Table: &cdc.Table{Columns: []cdc.Column{{Name: "key"}}}}
	for _, key := range keys {
		text := key.At + " " + key.ID
		b.Spans = append(b.Spans, cdc.Span{Off: int32(len(b.Arena)), Len: int32(len(text))})
		b.Arena = append(b.Arena, text...)
	}
	return b
}

func texts(b *cdc.Batch) (list []string) {
	for row := range b.Rows() {
		raw, _ := b.Value(row, 0)
		list = append(list, string(raw))
	}
	return list
}

// midnight is the bound of two partitions.
var midnight = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)

// drawTable draws rows around the bounds of partitions: equal times, equal IDs, IDs that follow the time and others.
func drawTable(t *rapid.T) *fakeTable {
	table := &fakeTable{sorts: rapid.Bool().Draw(t, "sorts")}
	for day := range rapid.IntRange(0, 3).Draw(t, "bounds") {
		table.bounds = append(table.bounds, midnight.AddDate(0, 0, day))
	}
	follow := rapid.Bool().Draw(t, "IDs follow the time")
	for i := range rapid.IntRange(0, 40).Draw(t, "rows") {
		day := rapid.IntRange(-1, 4).Draw(t, "day")
		at := midnight.AddDate(0, 0, day).Add(time.Duration(rapid.IntRange(-2, 2).Draw(t, "microseconds")) * time.Microsecond)
		id := fmt.Sprintf("%02d", rapid.IntRange(0, 4).Draw(t, "ID"))
		if follow {
			id = at.Format(layout) + fmt.Sprint(i)
		}
		table.rows = append(table.rows, Key{at.Format(layout), id})
	}
	slices.SortFunc(table.rows, compare)
	return table
}

// Every selected row is read once, in order, however rows are spread over time, IDs, partitions, statements and pages; and a run that
// goes on from any key that was reported reads every row that was not yielded before.
func TestEveryRowIsReadOnceInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		table := drawTable(t)
		limit := limits{rapid.IntRange(1, 8).Draw(t, "keys at once"), rapid.IntRange(1, 4).Draw(t, "page")}
		var f Filter
		if rapid.Bool().Draw(t, "from") {
			f.From = midnight.AddDate(0, 0, rapid.IntRange(-1, 3).Draw(t, "from day"))
		}
		if rapid.Bool().Draw(t, "to") {
			f.To = midnight.AddDate(0, 0, rapid.IntRange(-1, 3).Draw(t, "to day")).Add(time.Microsecond)
		}
		var want []string
		for _, row := range table.rows {
			if within(Window{f.From, f.To}, row) {
				want = append(want, row.At+" "+row.ID)
			}
		}
		type stop struct {
			yielded int
			done    Key
		}
		var got []string
		var stops []stop
		last := false
		err := each(t.Context(), table, f, Key{}, limit, nil, func(b *cdc.Batch, done Key) error {
			stops = append(stops, stop{len(got), done})
			if last = b == nil; !last {
				got = append(got, texts(b)...)
			}
			return nil
		})
		if err != nil || !last || !slices.Equal(got, want) {
			t.Fatalf("read %q, %v, ended %t; want %q", got, err, last, want)
		}
		from := rapid.SampledFrom(stops).Draw(t, "interrupted")
		var rest []string
		err = each(t.Context(), table, f, from.done, limit, nil, func(b *cdc.Batch, _ Key) error {
			if b != nil {
				rest = append(rest, texts(b)...)
			}
			return nil
		})
		if n := len(want) - len(rest); err != nil || n < 0 || n > from.yielded || !slices.Equal(rest, want[n:]) {
			t.Fatalf("after %d of %q it goes on with %q, %v", from.yielded, want, rest, err)
		}
	})
}

// IDs that follow the time are read as ranges, others are searched for, and so are the few of a filter.
func TestPagesAreRangesWhereIDsFollowTheTime(t *testing.T) {
	t.Parallel()
	number := func(i int) string { return fmt.Sprintf("%04d", i) }
	for name, c := range map[string]struct {
		id     func(i int) string
		other  bool // the server compares in another way
		filter Filter
		ranges int
	}{
		"ascending":            {id: number, ranges: 10},
		"neighbours exchanged": {id: func(i int) string { return number(i ^ 1) }, ranges: 10},
		"one far behind": {id: func(i int) string {
			if i == 55 {
				return number(5)
			}
			return number(10 + i)
		}, ranges: 9},
		"any order":     {id: func(i int) string { return number(i * 37 % 100) }},
		"another order": {id: number, other: true},
		"a filter":      {id: number, filter: Filter{Matches: []Match{{}}}},
	} {
		table := &fakeTable{sorts: !c.other}
		for i := range 100 {
			table.rows = append(table.rows, Key{midnight.Add(time.Duration(i) * time.Hour).Format(layout), c.id(i)})
		}
		err := each(t.Context(), table, c.filter, Key{}, limits{1000, 10}, nil, func(*cdc.Batch, Key) error { return nil })
		if err != nil || table.ranges != c.ranges {
			t.Errorf("%s: %d of 10 pages are ranges, %v; want %d", name, table.ranges, err, c.ranges)
		}
	}
}

// An error of the table or of yield ends the run, and is returned as it is.
func TestErrorsEndTheRun(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection lost")
	table := &fakeTable{rows: []Key{{midnight.Format(layout), "1"}}, fail: lost}
	yielded := func(*cdc.Batch, Key) error { t.Error("yielded"); return nil }
	if err := Each(t.Context(), table, Filter{}, Key{}, nil, yielded); !errors.Is(err, lost) {
		t.Errorf("of the table: %v", err)
	}
	table.fail = nil
	if err := Each(t.Context(), table, Filter{}, Key{}, nil, func(*cdc.Batch, Key) error { return lost }); !errors.Is(err, lost) {
		t.Errorf("of yield: %v", err)
	}
}

// Each row is a transaction of its time; a value that is no time of a year with four digits has none.
func TestRowsHaveTheirTime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"2026-01-02T00:00:00Z":        midnight.UnixMicro(),
		"2026-01-02T00:00:00.000001Z": midnight.UnixMicro() + 1,
		"2026-01-02":                  midnight.UnixMicro(),
		"infinity":                    0,
		"0001-01-01T00:00:00Z BC":     0,
	} {
		b := batch([]Key{{}})
		b.Arena, b.Spans = []byte(text), []cdc.Span{{Len: int32(len(text))}}
		if err := new(Batches).Complete(b); err != nil || len(b.Txs) != 1 || b.Txs[0].Time != want {
			t.Errorf("%s: %+v, %v; want %d", text, b.Txs, err, want)
		}
	}
	for at := range 2 { // NULL, and no such column
		b := batch([]Key{{}})
		b.Spans[0].Len = -1
		if err := (&Batches{At: -at}).Complete(b); err != nil || len(b.Txs) != 1 || b.Txs[0].Time != 0 {
			t.Errorf("column %d: %+v, %v", -at, b.Txs, err)
		}
	}
}

// Two tables may have the same event ID, and two rows one that is not readable: the places of rows tell them apart, whenever they are read.
func TestPlaces(t *testing.T) {
	t.Parallel()
	places, rows := map[string]string{}, map[string]string{}
	for _, row := range []string{"orders/1", "items/1", "orders/2", "orders/1", "items/1"} {
		b := batch([]Key{{}})
		b.Table = &cdc.Table{Schema: "public", Name: path.Dir(row), Columns: make([]cdc.Column, 2)}
		b.Arena, b.Spans = []byte("-"+path.Base(row)), []cdc.Span{{Len: 1}, {Off: 1, Len: 1}}
		if err := (&Batches{Key: 1, At: -1}).Complete(b); err != nil {
			t.Fatal(err)
		}
		place := b.Place(0)
		if was := places[row]; was != "" && was != place || !cdc.OfTable(place) {
			t.Errorf("row %s is at %s, and was at %q", row, place, was)
		}
		places[row], rows[place] = place, row
	}
	if len(rows) != 3 {
		t.Errorf("places: %v", places)
	}
}

// Rows tie where only IDs tell them apart that do not grow.
func TestTies(t *testing.T) {
	t.Parallel()
	const at, v4, v7 = "2026-01-02 00:00:00", "c0ffee00-0000-4000-8000-0000000000", "019b77a4-0000-7000-8000-0000000000"
	for name, c := range map[string]struct {
		keys []Key
		want bool
	}{
		"times differ":  {keys: []Key{{at, v4 + "01"}, {at + ".1", v4 + "00"}}},
		"random IDs":    {keys: []Key{{at, v4 + "01"}, {at, v4 + "02"}}, want: true},
		"IDs that grow": {keys: []Key{{at, v7 + "01"}, {at, v7 + "02"}}},
		"their bytes":   {keys: []Key{{at, "019B77A4000070008000000000000001"}, {at, "019B77A4000070008000000000000002"}}},
		"texts":         {keys: []Key{{at, "a"}, {at, "b"}}, want: true},
		"one row":       {keys: []Key{{at, "a"}}},
	} {
		if got := ties(c.keys); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// megabytes is the driver of a table whose rows have 1 MiB each.
type megabytes struct{ Driver }

func (megabytes) Reading(_ context.Context, read func() error) error { return read() }
func (megabytes) Param(*Conditions, *Column, string) string          { return "" }
func (megabytes) Among(*Conditions, *Column, []string) string        { return "" }
func (megabytes) AppendKey(text, value []byte) ([]byte, error)       { return append(text, value...), nil }

func (megabytes) AppendCell(to []byte, _ int, v []byte) ([]byte, error) { return append(to, v...), nil }

func (megabytes) Query(_ context.Context, _ string, _ []any, p *Page, row func([][]byte) error) error {
	for _, key := range p.Keys {
		if err := row([][]byte{[]byte(key.ID), make([]byte, 1<<20)}); err != nil {
			return err
		}
	}
	return nil
}

// Rows that do not fit into memory together are read in pieces: each once, in order.
func TestLargeRowsAreReadInPieces(t *testing.T) {
	t.Parallel()
	r := &Reader{Driver: megabytes{}, Table: &cdc.Table{Columns: make([]cdc.Column, 2)}, Cells: make([]Cell, 2), Batches: Batches{At: -1}}
	var p Page
	got, want := "", "0123456789"
	for _, id := range want {
		p.Keys = append(p.Keys, Key{ID: string(id)})
	}
	err := r.Rows(t.Context(), Filter{}, p, func(b *cdc.Batch) error {
		got += strings.Join(texts(b), "")
		return nil
	})
	if err != nil || got != want {
		t.Errorf("read %s, %v", got, err)
	}
}

// Rows end with the last one of the last window that has any.
func TestLast(t *testing.T) {
	t.Parallel()
	table := &fakeTable{bounds: []time.Time{midnight, midnight.AddDate(0, 0, 1)}}
	for _, want := range []string{"", midnight.Add(-time.Hour).Format(layout), midnight.Add(time.Hour).Format(layout)} {
		if want != "" {
			table.rows = append(table.rows, Key{want, "1"})
		}
		if got, err := Last(t.Context(), table, Filter{}); got != want || err != nil {
			t.Errorf("%d rows: %q, %v; want %q", len(table.rows), got, err, want)
		}
	}
}
