package conformance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
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
	if err := d.Partitions().TakeOut(t.Context(), day(t, d, 3)); err != nil {
		t.Fatal(err)
	}
	d.Exec("ALTER TABLE outbox DROP COLUMN topic", "ALTER TABLE outbox ADD COLUMN topic varchar(9)", // in another place than in what was taken out
		"ALTER TABLE outbox ADD COLUMN shard int")
	r := d.Reader()
	keys, err := r.Keys(t.Context(), tableread.Filter{}, tableread.Window{}, tableread.Key{}, 3)
	if err != nil {
		t.Fatal(err)
	}
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
	d.Exec("DROP TABLE " + takenOut(t, d)[0].Name)
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
