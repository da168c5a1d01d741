package backfill

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
)

// table has one row, created at a time; the zero time stands for none.
type table struct {
	tableread.Table

	created time.Time
	err     error
}

func (t table) Keys(context.Context, tableread.Filter, tableread.Window, tableread.Key, int) ([]tableread.Key, error) {
	if t.err != nil || t.created.IsZero() {
		return nil, t.err
	}
	return []tableread.Key{{}}, nil
}

func (t table) Rows(_ context.Context, _ tableread.Filter, _ tableread.Page, yield func(*cdc.Batch) error) error {
	return yield(&cdc.Batch{Txs: []cdc.Tx{{Time: t.created.UnixMicro()}}})
}

// The gap is what the person asked for, or begins where the checkpoint tells most exactly.
func TestGap(t *testing.T) {
	published, since := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	lost := errors.New("lost")
	ground := Ground{Found: true, Lost: lost, Stored: cdc.Checkpoint{LastEventID: "e", SavedAt: published}, Probes: []tableread.Table{
		table{err: tableread.NotAnID("a", "id", "int", "")}, table{created: published},
	}}
	change := func(change func(*Ground)) Ground {
		g := ground
		change(&g)
		return g
	}
	gone := func(g *Ground) { g.Probes = []tableread.Table{table{}} }
	for name, tt := range map[string]struct {
		options Options
		ground  Ground
		want    tableread.Filter
		says    string
		reason  string
	}{
		"everything":          {options: Options{All: true}, ground: ground, says: "all rows"},
		"since a time":        {options: Options{Since: since}, ground: ground, want: tableread.Filter{From: since.Add(-time.Hour)}, says: "within 1h0m0s (--overlap) of its created_at"},
		"backdated events":    {options: Options{Since: since, Backdated: true}, ground: ground, want: tableread.Filter{From: since.Add(-time.Hour)}, says: "no event happened more than 1h0m0s"},
		"nothing is lost":     {ground: change(func(g *Ground) { g.Lost = nil }), reason: Intact},
		"backfill began":      {ground: change(func(g *Ground) { g.Stored.Progress.Backfill = "x" }), reason: "backfill_unfinished"},
		"by transaction":      {ground: change(func(g *Ground) { g.Where, g.Exact = "x", "exact" }), want: tableread.Filter{Where: "x"}, says: "exact"},
		"IDs used up":         {ground: change(func(g *Ground) { g.Exact = "all of them" }), says: "all of them"},
		"last event":          {ground: ground, want: tableread.Filter{From: published.Add(-time.Hour)}, says: "within 1h0m0s (--overlap) of its created_at"},
		"last event is gone":  {ground: change(gone), reason: "gap_unknown"},
		"two have its ID":     {ground: change(func(g *Ground) { g.Probes = append(g.Probes, table{created: since}) }), reason: "gap_unknown"},
		"last event is ahead": {ground: change(func(g *Ground) { g.Stored.SavedAt = published.Add(-2 * time.Hour) }), reason: "gap_unknown"},
		"checkpoint is lost":  {ground: change(func(g *Ground) { g.Found = false }), reason: "gap_unknown"},
		"database is no help": {ground: change(func(g *Ground) { g.Probes = []tableread.Table{table{err: lost}} }), reason: "error"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.options.Overlap = time.Hour
			got, err := tt.options.plan(t.Context(), &tt.ground)
			stop, _ := errors.AsType[*cdc.StopError](err)
			switch {
			case tt.reason == "error" && !errors.Is(err, lost), tt.reason == "" && err != nil:
				t.Fatal(err)
			case tt.reason != "" && tt.reason != "error" && (stop == nil || stop.Reason != tt.reason):
				t.Fatalf("got %v, want %s", err, tt.reason)
			case err == nil && (!got.filter.From.Equal(tt.want.From) || got.filter.Where != tt.want.Where || !strings.Contains(got.text, tt.says)):
				t.Errorf("got %+v", got)
			}
		})
	}
}
