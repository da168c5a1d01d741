package faults

import (
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// The slot alone holds the position. A dead letter is dropped, and the relay killed at once: the event does not come back.
//
//covers:postgres 34 events
func TestDroppedWithTheSlotAlone(t *testing.T) {
	t.Parallel()
	r := letterRig(t, postgres(), func(o *cdctest.RigOptions) { o.Checkpoint = cdctest.SlotOnly })
	r.Start()
	for range 3 {
		bad := r.AppendAs("k", 1, stray)
		r.Exclude(bad...)
		awaitCounts(r, "map[unroutable:1]")
		_, err := r.Relay.Command(r.Within(time.Minute), "dlq", "drop", bad[0].ID.String())
		r.Must(err)
		r.Kill()
		r.Start()
		r.AwaitEvents(r.Append("k", 1))
		awaitCounts(r, "map[]")
	}
	r.Verify()
}
