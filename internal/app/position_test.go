package app

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
)

// The position that is set is the stored one, within a transaction of which some rows are published: they are published again.
func TestSetPositionWithinATransaction(t *testing.T) {
	part := cdc.Part{TxID: "0-1-7", Rows: 3}
	if c := checkpoint.Moved(cdc.Checkpoint{Progress: cdc.Progress{Part: part}}, cdc.Source{}, "p", true); c.Progress.Part != (cdc.Part{}) {
		t.Errorf("the rows are skipped: %+v", c.Progress)
	}
	var out bytes.Buffer
	was := &cdc.Inspection{Found: true, Checkpoint: cdc.Checkpoint{Progress: cdc.Progress{Part: part}}}
	p := Positions{db: &mysqlPositions{}, printf: func(format string, args ...any) { fmt.Fprintf(&out, format, args...) }}
	p.reportMove(cdc.Move{To: "0-1-6"}, was)
	for line := range strings.Lines(out.String()) {
		if !strings.Contains(line, "before transaction 0-1-7; its first 3 rows, published already, will be published again") {
			t.Error(line)
		}
	}
}

// What the position alone tells is not forgotten without --skip-events.
func TestSetPositionForgetsNoLoss(t *testing.T) {
	for _, reason := range []string{"history_lost", "timeline_fork", "backfill_unfinished", cdc.PublicationAltered} {
		err := omitted(&cdc.Inspection{Source: cdc.Source{Slot: "s"}, Refused: cdc.PositionError(reason, "repair it", "lost")})
		if cdc.ReasonOf(err) != "usage" || !strings.HasPrefix(cdc.Fix(err), "repair it; or give --skip-events") {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

// A position that is set by hand may be behind rows that nobody has published.
func TestSetPositionSettlesNothing(t *testing.T) {
	if c := checkpoint.Moved(cdc.Checkpoint{Settled: "condition", Progress: cdc.Progress{Backfill: "TRUE", XMin: "9"}}, cdc.Source{}, "p", true); c.Settled+c.Progress.Backfill+c.Progress.XMin != "" {
		t.Errorf("settled: %q, %+v", c.Settled, c.Progress)
	}
}

// The store may hold an older generation than a leader that is frozen: its next save is refused all the same.
func TestSetPositionIsAboveAFrozenLeader(t *testing.T) {
	frozen := uint64(time.Now().UnixMilli())
	for _, stored := range []uint64{0, 7, frozen + 1000} {
		if c := checkpoint.Moved(cdc.Checkpoint{Generation: stored}, cdc.Source{}, "p", true); c.Generation < frozen || c.Generation <= stored {
			t.Errorf("%d where %d is stored, and the leader has %d", c.Generation, stored, frozen)
		}
	}
}
