package wal

import (
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// The checkpoint of an unfinished backfill has no position: the slot has it.
func TestPreviewBehindUnfinishedBackfill(t *testing.T) {
	in := Inspection{Inspection: cdc.Inspection{Found: true}, Slot: &postgres.SlotInfo{SlotRow: postgres.SlotRow{ConfirmedFlushLSN: "0000000000000100"}}, WALEnd: "0000000000000200"}
	if move, err := in.Preview("0000000000000100"); err != nil || move.Skips != 0 {
		t.Errorf("%+v, %v", move, err)
	}
}
