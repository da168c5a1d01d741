package faults

import (
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// The relay runs out of file descriptors while it reconnects. It names the cause and waits; once the limit is raised, it
// continues, and nothing is repeated.
//
//covers:all 30 events both
func TestOutOfFileDescriptors(t *testing.T) {
	inBothModes(t, func(t *testing.T, s source, delivery func(*cdctest.RigOptions)) {
		db := s.open(t)
		way := db.ThroughProxy(t)
		r := newRig(t, db, cdctest.InFile, delivery)
		r.Start()
		r.Load(cdctest.Workload{})
		r.AwaitProgress(300)
		limit(t, r.Relay, "3:")
		way.Cut()
		r.Must(way.Restore())
		r.Must(r.Relay.AwaitLog(r.Within(time.Minute), "too many open files"))
		limit(t, r.Relay, "1000:")
		r.AwaitProgress(300)
		goesOnOnce(t, r)
	})
}

// limit sets the soft limit on file descriptors; those in use stay open.
func limit(t *testing.T, relay *cdctest.Relay, descriptors string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "prlimit", "--pid", strconv.Itoa(relay.PID()), "--nofile="+descriptors).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
