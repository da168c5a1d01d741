package wal

import (
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/test/conformance"
)

// A relay that lost the slot before it reads hands on nothing of what the server had sent: another relay has published that
// and more.
func TestSlotLostBeforeReading(t *testing.T) {
	d := newDatabase(t)
	superseded := d.source()
	d.insert(1, 20000)
	acquire(t, superseded)
	defer superseded.Release(t.Context())
	d.awaitSent()
	d.exec("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '" + d.name + "'")
	d.awaitFree()
	start(t, d.source()).Await(20000)
	r := conformance.Run(t, superseded, newQueue(t))
	if err := r.Ended(); err == nil {
		t.Error("a lost slot is no error")
	}
	if n := len(r.Rows()); n > 0 {
		cdctest.Violation(t, cdctest.Duplicates, "a source without the slot handed on %d rows", n)
	}
}

// awaitSent waits until the walsender has sent what was committed.
func (d *database) awaitSent() {
	d.t.Helper()
	d.await("the walsender", `EXISTS (SELECT FROM pg_stat_replication r JOIN pg_replication_slots s ON s.active_pid = r.pid
		WHERE s.slot_name = $1 AND r.sent_lsn >= pg_current_wal_flush_lsn())`, d.name)
}
