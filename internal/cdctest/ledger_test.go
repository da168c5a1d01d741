package cdctest

import (
	"testing"

	"github.com/google/uuid"
)

// A table that lost a committed row, or kept one that was rolled back, is reported. What is in doubt may be there or not.
func TestLedgerFindsLostAndRolledBackRows(t *testing.T) {
	committed, undone, doubtful := uuid.UUID{1}, uuid.UUID{2}, uuid.UUID{3}
	var l Ledger
	l.commit([]uuid.UUID{committed})
	l.undo([]uuid.UUID{undone}, nil)
	l.doubt([]uuid.UUID{doubtful})
	for _, tt := range []struct {
		table []uuid.UUID
		found bool
	}{{[]uuid.UUID{committed}, false}, {[]uuid.UUID{committed, doubtful}, false}, {nil, true}, {[]uuid.UUID{committed, undone}, true}} {
		truth := NewTruth("events", "/shop/public.outbox")
		for _, id := range tt.table {
			if err := truth.Add(&Event{ID: id, Key: id.String(), Seq: 1}); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Check(truth); (err != nil) != tt.found {
			t.Errorf("%v: %v", tt.table, err)
		}
	}
}
