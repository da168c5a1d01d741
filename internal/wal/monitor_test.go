package wal

import (
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// The time until the slot is lost is by the growth of the last minutes.
func TestLoss(t *testing.T) {
	const limit = 1000
	m, began := &monitor{}, time.Unix(1000, 0)
	look := func(second int, kept int64) *float64 {
		safe := limit - kept
		return m.loss(&cdc.SlotStatus{RetainedBytes: kept, SafeBytes: &safe}, began.Add(time.Duration(second)*time.Second))
	}
	for _, tt := range []struct {
		name   string
		second int
		kept   int64
		want   float64 // 0: nothing threatens it
	}{
		{"first", 0, 100, 0},
		{"too soon to tell", 29, 400, 0},
		{"grows", 100, 200, 800},
		{"stands still", 200, 100, 0},
		{"the first is too old to count", 301, 400, 0},
		{"grows again", 320, 700, 291},
	} {
		got := look(tt.second, tt.kept)
		if (got != nil) != (tt.want > 0) || got != nil && *got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	if got := m.loss(&cdc.SlotStatus{RetainedBytes: 900}, began.Add(330*time.Second)); got != nil {
		t.Errorf("without a limit: %v", *got)
	}
}
