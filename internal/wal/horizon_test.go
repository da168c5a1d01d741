package wal

import (
	"testing"

	"github.com/jackc/pglogrepl"

	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// A horizon counts once the position has passed its place, and only after another look that found the publication unchanged.
func TestHorizonCountsBehindItsPlace(t *testing.T) {
	ss := fedSession(&feed{}, &releaser{})
	ss.next.xmin = 100 // of the checkpoint
	look := func(next postgres.Horizon) {
		ss.monitor.accept()
		ss.monitor.ended = next
	}
	want := func(position lsn, xmin string) {
		t.Helper()
		if err := ss.keepalive(t.Context(), pglogrepl.PrimaryKeepaliveMessage{ServerWALEnd: position, ReplyRequested: true}); err != nil {
			t.Fatal(err)
		}
		if got := ss.src.Progress(ss.src.handed.Load()); got.Position != postgres.FormatLSN(position) || got.XMin != xmin {
			t.Errorf("at %s: %q, want %q", got.Position, got.XMin, xmin)
		}
	}
	look(postgres.Horizon{XMin: 200, At: 2000})
	want(2500, "100") // the look may have been just before the publication was changed
	look(postgres.Horizon{XMin: 300, At: 4000})
	want(2501, "200")
	look(postgres.Horizon{}) // of a standby
	want(3999, "200")
	look(postgres.Horizon{XMin: 400, At: 4001})
	look(postgres.Horizon{XMin: 200, At: 5000}) // of another server
	want(4000, "300")                           // which still waited
	look(postgres.Horizon{})
	want(5000, "300")
}
