package mysql

import (
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// A set has passed the transactions that it has, of whichever server; within a transaction it counts rows.
func TestPassed(t *testing.T) {
	const a, b = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562"
	for _, tt := range []struct {
		position cdc.Position
		part     cdc.Part
		place    string
		want     bool
	}{
		{a + ":1-7", cdc.Part{}, a + ":7/0", true},
		{a + ":1-7", cdc.Part{}, a + ":8/0", false},
		{a + ":1-5:7", cdc.Part{}, a + ":6/0", false},
		{a + ":1-7", cdc.Part{}, b + ":7/0", false},
		{a + ":1-7", cdc.Part{TxID: a + ":8", Rows: 2}, a + ":8/1", true},
		{a + ":1-7", cdc.Part{TxID: a + ":8", Rows: 2}, a + ":8/2", false},
		{"0-1-7", cdc.Part{}, "0-1-7/0", true},
		{"0-1-7", cdc.Part{}, "0-1-8/0", false},
		{"0-2-7", cdc.Part{}, "0-1-6/0", true},
		{"0-1-7,1-1-3", cdc.Part{}, "1-1-4/0", false},
		{"0-1-7", cdc.Part{}, "0000000000000000/3", true}, // a row of repair
	} {
		if got := Passed(cdc.Progress{Position: tt.position, Part: tt.part}, tt.place); got != tt.want {
			t.Errorf("%s %+v has passed %s: %v", tt.position, tt.part, tt.place, got)
		}
	}
}
