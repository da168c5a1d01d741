package faults

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// Of an outage of Kafka the log has its beginning, at growing intervals that it lasts, and its end; of a stop what was saved.
//
//covers:postgres 22 events
func TestQuietLog(t *testing.T) {
	r := newRig(t, newPostgres(t), cdctest.SlotOnly, nil)
	r.Start()
	r.AwaitEvents(r.Append("before", 10))
	resume := pauseKafka(t)
	r.Append("meanwhile", 10)
	r.Hold(12 * time.Second)
	resume()
	once(t, r)
	r.Must(r.Relay.Signal(syscall.SIGTERM))
	log := r.AwaitExit(time.Minute, 0).Log
	if n := strings.Count(log, "level=WARN"); n > 4 || !strings.Contains(log, "msg=stopped saved=") {
		t.Errorf("%d lines about the outage; or nothing says what was saved", n)
	}
}
