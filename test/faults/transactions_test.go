package faults

import (
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// Memory stays flat during one transaction of 120,000 rows with payloads of 1,000 bytes, more than the relay may take.
//
//covers:all 17 events
func TestLargeTransaction(t *testing.T) {
	t.Parallel()
	const rows = 120_000
	for name, most := range map[string]int{"postgres": 64, testenv.MySQLFlavor: 100, testenv.MariaDBFlavor: 100} { // MiB
		src, wanted := sources()[name]
		if !wanted {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := src.open(t)
			r := newRig(t, db, src.least(), func(o *cdctest.RigOptions) { o.Window = 32768 }) // the default
			r.Start()
			r.Append("before", 10)
			began := time.Now()
			r.Must(db.InsertMany(r.Within(3*time.Minute), "big", rows, 1000))
			t.Logf("committed after %s", time.Since(began))
			r.Append("after", 10)
			r.Must(r.Reader.AwaitEvents(r.Within(3*time.Minute), rows+20))
			peak, err := r.Relay.PeakMemory()
			r.Must(err)
			t.Logf("published after %s", time.Since(began))
			t.Logf("the relay's peak memory is %d MiB", peak>>20)
			if peak > most<<20 {
				t.Errorf("the relay's peak memory is %d MiB, want at most %d", peak>>20, most)
			}
			r.Verify()
		})
	}
}
