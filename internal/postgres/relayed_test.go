package postgres

import (
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// A position may be that of a commit record whose rows are still to come; within a transaction it counts rows.
func TestPassed(t *testing.T) {
	for _, tt := range []struct {
		position cdc.Position
		part     cdc.Part
		place    string
		want     bool
	}{
		{"0000000000000100", cdc.Part{}, "0000000000000100/0", false},
		{"0000000000000101", cdc.Part{}, "0000000000000100/0", true},
		{"00000000000000FF", cdc.Part{}, "0000000000000100/0", false},
		{"", cdc.Part{}, "0000000000000100/0", false},
		{"0000000000000100", cdc.Part{TxID: "0000000000000100/7", Rows: 2}, "0000000000000100/1", true},
		{"0000000000000100", cdc.Part{TxID: "0000000000000100/7", Rows: 2}, "0000000000000100/2", false},
		{"0000000000000100", cdc.Part{TxID: "0000000000000100/7", Rows: 2}, "0000000000000200/0", false},
		{"0000000000000100", cdc.Part{}, "no place", false},
	} {
		if got := Passed(cdc.Progress{Position: tt.position, Part: tt.part}, tt.place); got != tt.want {
			t.Errorf("%s %+v has passed %s: %v", tt.position, tt.part, tt.place, got)
		}
	}
}
