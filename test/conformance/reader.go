package conformance

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// ReadInOrderOfCreation reads rows in order of creation, across partitions and what was taken out, from a key on, and as a filter says. What
// is dropped while they are read is left out. insert takes the last byte of an event's ID, its key and its time.
func ReadInOrderOfCreation(t *testing.T, d Outbox, insert func(id, key string, at time.Time)) {
	t.Helper()
	today := time.Now().UTC().Truncate(24 * time.Hour)
	first := today.AddDate(0, 0, -3)
	insert("08", "k0", today)
	insert("78", "k1", first.Add(25*time.Hour))
	insert("77", "k1", first.Add(time.Hour))
	insert("07", "k1", today)
	insert("09", "K1", today.Add(-time.Microsecond))
	insert("06", "", today.AddDate(0, 0, 9)) // in the last partition
	testenv.Must(t, d.Partitions().TakeOut(t.Context(), Day(t, d.Partitions(), 3)))
	d.Exec("ALTER TABLE outbox DROP COLUMN topic", "ALTER TABLE outbox ADD COLUMN topic varchar(9)", // in another place than in what was taken out
		"ALTER TABLE outbox ADD COLUMN shard int")
	r := d.Reader()
	keys, err := r.Keys(t.Context(), tableread.Filter{}, tableread.Window{}, tableread.Key{}, 3)
	testenv.Must(t, err)
	match := func(value string, columns ...string) tableread.Filter {
		return tableread.Filter{Matches: []tableread.Match{{Columns: columns, Values: []string{value, `"}`}}}}
	}
	cases := []struct {
		name   string
		filter tableread.Filter
		after  tableread.Key
		want   string
	}{
		{"all", tableread.Filter{}, tableread.Key{}, "77 78 09 07 08 06"},
		{"resumed", tableread.Filter{}, keys[2], "07 08 06"},
		{"from, to", tableread.Filter{From: first, To: today.Add(time.Microsecond)}, tableread.Key{}, "77 78 09 07 08"},
		{"an ID", tableread.Filter{IDs: []string{id("77"), id("06")}}, tableread.Key{}, "77 06"},
		{"a key", match("k1", "topic", "aggregate_id"), tableread.Key{}, "77 78 07"},
		{"added", match("1", "shard"), tableread.Key{}, ""},
		{"SQL", tableread.Filter{Where: "aggregate_id = 'k1' OR aggregate_id IS NULL", From: first.Add(2 * time.Hour)}, tableread.Key{}, "78 07"},
		{"nothing", tableread.Filter{From: today, To: today}, tableread.Key{}, ""},
	}
	for i := range cases {
		c := &cases[i]
		var got []string
		err := tableread.Each(t.Context(), r, c.filter, c.after, nil, func(b *cdc.Batch, _ tableread.Key) error {
			got = append(got, ids(b)...)
			return nil
		})
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, %v; want %s", c.name, got, err, c.want)
		}
		n, err := r.Count(t.Context(), c.filter)
		if err != nil || c.after == (tableread.Key{}) && int(n) != len(got) {
			t.Errorf("%s: counted %d, %v; want %d", c.name, n, err, len(got))
		}
	}
	d.Exec("DROP TABLE " + TakenOut(t, d.Partitions())[0].Name)
	var got []string
	err = r.Rows(t.Context(), tableread.Filter{}, tableread.Page{Keys: keys}, func(b *cdc.Batch) error {
		got = append(got, ids(b)...)
		return nil
	})
	if err != nil || strings.Join(got, " ") != "78 09" {
		t.Errorf("without what was dropped: %q, %v", got, err)
	}
}

// id is the event ID that ends with a byte.
func id(last string) string { return "00000000-0000-0000-0000-0000000000" + last }

// ids returns the last byte of each event's ID.
func ids(b *cdc.Batch) (list []string) {
	if b == nil {
		return nil
	}
	for row := range b.Rows() {
		raw, _ := b.Value(row, b.Table.Index("event_id"))
		list = append(list, fmt.Sprintf("%02x", raw[15]))
	}
	return list
}

// Ordered is a table jobs and the order in which its three rows are read, whose number n grows and whose time at goes back. By is the column by
// which they are read; "": none.
type Ordered struct {
	DDL, By, Want, Reason string
	// ID and At say that rows are inserted with these columns, Last that the third one has no time.
	ID, At, Last bool
	Options      tableread.ReadOptions
	Filter       tableread.Filter
}

// OrderOfRows verifies that rows are read by what grows: a column that is named, a number that the database counts up, or else their time. IDs need
// no order, and what is not selected does not matter. What is inserted behind the last row is not read.
func OrderOfRows(t *testing.T, d Outbox, cases map[string]Ordered) {
	t.Helper()
	for name := range cases {
		c := cases[name]
		d.Exec("DROP TABLE IF EXISTS jobs", c.DDL)
		insert := func(n int) {
			columns, values := "n", strconv.Itoa(n)
			if c.ID {
				columns, values = columns+", id", values+", "+strconv.Itoa(n)
			}
			if c.At && (n != 3 || !c.Last) {
				columns, values = columns+", at", values+fmt.Sprintf(", '2026-01-02 03:04:%02d'", 30-n)
			}
			d.Exec("INSERT INTO jobs (" + columns + ") VALUES (" + values + ")")
		}
		for n := range 3 {
			insert(n + 1)
		}
		c.Options.Key = "id"
		r := d.ReaderOf("jobs", c.Options)
		got, err := Column(t, r, c.Filter, "n")
		if r.Order() != c.By || cdc.ReasonOf(err) != c.Reason || (err == nil) != (cdc.Fix(err) == "") || err == nil && got != c.Want {
			t.Errorf("%s: by %q %s, %v; want %q %s %s", name, r.Order(), got, err, c.By, c.Want, c.Reason)
		}
		if err != nil || c.By == "" {
			continue
		}
		if c.Filter.Last, err = tableread.Last(t.Context(), r, c.Filter); err != nil {
			t.Fatal(err)
		}
		if c.By != "at" { // a later one would have an earlier time here
			insert(4)
		}
		if got, err := Column(t, r, c.Filter, "n"); got != c.Want || err != nil {
			t.Errorf("%s: up to the last one %s, %v; want %s", name, got, err, c.Want)
		}
	}
}

// Column reads a column of the rows that a filter selects, as a replay or a repair reads them.
func Column(t *testing.T, r tableread.Table, f tableread.Filter, column string) (string, error) {
	t.Helper()
	var got []string
	err := tableread.Each(t.Context(), r, f, tableread.Key{}, nil, func(b *cdc.Batch, _ tableread.Key) error {
		for row := 0; b != nil && row < b.Rows(); row++ {
			at := b.Table.Index(column)
			raw, _ := b.Value(row, at)
			text, err := b.Table.Columns[at].Form.AppendText(nil, raw)
			if err != nil {
				return err
			}
			got = append(got, string(text))
		}
		return nil
	})
	return strings.Join(got, " "), err
}

// Cells lists the values of b's rows as they are, with their forms and types. JSON in MySQL's binary form is printed.
func Cells(b *cdc.Batch) (rows []string) {
	for row := 0; b != nil && row < b.Rows(); row++ {
		var text strings.Builder
		for i, c := range b.Table.Columns {
			raw, ok := b.Value(row, i)
			if c.Form == cdc.FormMySQLJSON {
				c.Form = cdc.FormText
				var err error
				if raw, err = cdc.FormMySQLJSON.AppendText(nil, raw); err != nil {
					raw = []byte(err.Error())
				}
				if !ok {
					raw = nil
				}
			}
			fmt.Fprintf(&text, "%s %d %d %t %q\n", c.Name, c.Form, c.Type, ok, raw)
		}
		rows = append(rows, text.String())
	}
	return rows
}

// ReadCells returns the cells of all rows of a table, in the order in which they are read.
func ReadCells(t *testing.T, r tableread.Table) (rows []string) {
	t.Helper()
	testenv.Must(t, tableread.Each(t.Context(), r, tableread.Filter{}, tableread.Key{}, nil, func(b *cdc.Batch, _ tableread.Key) error {
		rows = append(rows, Cells(b)...)
		return nil
	}))
	return rows
}

// SameCells verifies that a table's three rows have the same cells as in the WAL or binlog.
func SameCells(t *testing.T, r tableread.Table, logged []string) {
	t.Helper()
	got := ReadCells(t, r)
	if len(got) != 3 || len(logged) != 3 {
		t.Fatalf("%d rows by SQL, %d in the WAL or binlog, want 3", len(got), len(logged))
	}
	for i := range logged {
		want, lines := strings.Split(logged[i], "\n"), strings.Split(got[i], "\n")
		if len(lines) != len(want) {
			t.Fatalf("row %d by SQL:\n%s\nin the WAL or binlog:\n%s", i+1, got[i], logged[i])
		}
		for n := range want {
			if lines[n] != want[n] {
				t.Errorf("row %d by SQL:\n%.300s\nin the WAL or binlog:\n%.300s", i+1, lines[n], want[n])
			}
		}
	}
}
