package tableread

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// The rows that were picked are read once, in order, and no others, however many come between them afterwards.
func TestOnlyPickedRowsAreRead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		table := drawTable(t)
		later := table.rows
		var want []string
		table.rows = nil
		for _, row := range slices.Compact(slices.Clone(later)) {
			if sameID := slices.ContainsFunc(later, func(k Key) bool { return k.ID == row.ID && k != row }); !sameID && rapid.Bool().Draw(t, "picked") {
				table.rows = append(table.rows, row)
				want = append(want, row.At+" "+row.ID)
			}
		}
		p, err := pick(t.Context(), table, Filter{}, rapid.IntRange(1, 8).Draw(t, "keys at once"))
		if err != nil {
			t.Fatal(err)
		}
		table.rows = slices.Compact(later)
		var got []string
		l := limits{rapid.IntRange(1, 8).Draw(t, "keys of a statement"), rapid.IntRange(1, 4).Draw(t, "page")}
		for range 2 { // it can be read again
			got = nil
			err = each(t.Context(), p, Filter{}, Key{}, l, nil, func(b *cdc.Batch, _ Key) error {
				if b != nil {
					got = append(got, texts(b)...)
				}
				return nil
			})
		}
		if n, _ := p.Count(t.Context(), Filter{}); err != nil || !slices.Equal(got, want) || int(n) != len(want) {
			t.Fatalf("read %q, %v; counted %d, want %q", got, err, n, want)
		}
	})
}
