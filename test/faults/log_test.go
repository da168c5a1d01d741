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
//covers:postgres 14 messages
func TestQuietLog(t *testing.T) {
	r := newRig(t, newPostgres(t), cdctest.SlotOnly, nil)
	r.Start()
	r.AwaitEvents(r.Append("before", 10))
	resume := pauseKafka(t)
	r.Append("meanwhile", 10)
	r.Hold(12 * time.Second)
	resume()
	r.Must(r.Relay.AwaitLog(r.Within(time.Minute), "Kafka works again"))
	if n := strings.Count(r.Relay.Log(), "level=WARN"); n > 4 {
		t.Errorf("%d lines about the outage", n)
	}
	r.Must(r.Relay.Signal(syscall.SIGTERM))
	says(t, r.AwaitExit(time.Minute, 0), "msg=stopped saved=")
}
