package conformance

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/cleanup"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// PartitionIsDroppedOnceRelayed makes passes before the relay reads, and while it does.
func PartitionIsDroppedOnceRelayed(t *testing.T, d Outbox) {
	t.Helper()
	d.Insert(3, 1, 5)
	o := cleanup.PartitionOptions{Ahead: 5, TTL: 36 * time.Hour, Drop: true}
	if err := Maintain(t, d.Partitions(), o); err == nil || !strings.Contains(cdc.Explain(err), "start the relay") {
		t.Fatalf("while nothing is relayed: %v", err)
	}
	if parts, out := List(t, d.Partitions()), TakenOut(t, d.Partitions()); len(out) == 0 || cleanup.Ahead(parts, time.Now()) != 5 {
		t.Fatalf("%d taken out, %d days ahead: %v", len(out), cleanup.Ahead(parts, time.Now()), parts)
	}
	r := start(t, d.Source(), d.Begin())
	r.ExpectUpTo(1, 5)
	d.Insert(0, 6, 6)
	r.ExpectUpTo(1, 6)
	d.Save(r.Checkpoint())
	testenv.Must(t, Maintain(t, d.Partitions(), o))
	if out := TakenOut(t, d.Partitions()); len(out) > 0 {
		t.Errorf("still there: %v", out)
	}
	d.Insert(0, 7, 8)
	r.ExpectUpTo(1, 8)
	if got := d.Numbers("outbox"); got != "6,7,8" {
		t.Errorf("the table holds %s", got)
	}
}

// PassGivesUpBehindAWriter takes out a day that a transaction has written to.
func PassGivesUpBehindAWriter(t *testing.T, d Outbox) {
	t.Helper()
	d.Insert(3, 1, 1)
	end := d.Hold("UPDATE outbox SET aggregate_id = '2' WHERE created_at < " + d.Ago(2))
	p, old := d.Partitions(), Day(t, d.Partitions(), 3)
	for range 3 {
		if err := p.TakeOut(t.Context(), old); !errors.Is(err, cdc.ErrBusy) || cdc.Fix(err) == "" {
			t.Fatalf("behind a writer: %v", err)
		}
	}
	d.Insert(0, 3, 3) // nobody waits any more
	if out := TakenOut(t, d.Partitions()); len(out) > 0 {
		t.Errorf("taken out: %v", out)
	}
	end(true)
	err := p.TakeOut(t.Context(), old)
	for deadline := time.Now().Add(time.Minute); errors.Is(err, cdc.ErrBusy) && time.Now().Before(deadline); { // MariaDB may free a lock after the answer to COMMIT
		err = p.TakeOut(t.Context(), old)
	}
	testenv.Must(t, err)
	if got := d.Numbers(TakenOut(t, d.Partitions())[0].Name); got != "2" {
		cdctest.Violation(t, cdctest.Unpublished, "taken out: %s, want 2", got)
	}
}

// RestoredPartitionIsKept makes a pass over a partition as a dump restores it.
func RestoredPartitionIsKept(t *testing.T, d Outbox) {
	t.Helper()
	d.Insert(3, 1, 1)
	testenv.Must(t, d.Partitions().TakeOut(t.Context(), Day(t, d.Partitions(), 3)))
	d.Relayed()
	part := TakenOut(t, d.Partitions())[0]
	if !part.Relayed {
		t.Fatalf("not relayed: %+v", part)
	}
	d.Restore(part.Name)
	d.Relayed()
	part = TakenOut(t, d.Partitions())[0]
	if part.Relayed {
		cdctest.Violation(t, cdctest.Unpublished, "restored, and relayed: %+v", part)
	} else if part.Kept == nil || !strings.Contains(cdc.Explain(part.Kept), "drop it") {
		t.Errorf("restored: %+v", part)
	}
	err := Maintain(t, d.Partitions(), cleanup.PartitionOptions{TTL: time.Hour, Drop: true})
	if err == nil || !strings.Contains(cdc.Explain(err), "restored") {
		t.Errorf("a pass says %v", err)
	}
	if !slices.ContainsFunc(TakenOut(t, d.Partitions()), func(p cdc.Partition) bool { return p.Name == part.Name }) {
		cdctest.Violation(t, cdctest.Unpublished, "%s was restored, and dropped", part.Name)
	}
}

// RowsOfNoDayAreNotMoved makes a pass while the last partition has rows of a day ahead. older lets the part that was taken out with them
// have been so two days earlier.
func RowsOfNoDayAreNotMoved(t *testing.T, d Outbox, older func(part string)) {
	t.Helper()
	d.Insert(-4, 1, 3)
	o := cleanup.PartitionOptions{Ahead: 6, TTL: 240 * time.Hour, Drop: true}
	testenv.Must(t, Maintain(t, d.Partitions(), o))
	parts, out := List(t, d.Partitions()), TakenOut(t, d.Partitions())
	if cleanup.Ahead(parts, time.Now()) != 6 || len(out) != 1 || d.Numbers(out[0].Name) != "1,2,3" {
		t.Fatalf("partitions: %v", parts)
	}
	d.Insert(-4, 4, 4)
	d.Insert(-9, 5, 5)
	if rows, err := d.Partitions().DefaultRows(t.Context()); err != nil || rows != 1 || d.Numbers("outbox") != "4,5" {
		t.Errorf("the last partition has %d rows, the table %s, %v", rows, d.Numbers("outbox"), err)
	}
	d.Relayed()
	o.TTL = time.Nanosecond
	err := Maintain(t, d.Partitions(), o)
	for deadline := time.Now().Add(patience()); err == nil && time.Now().Before(deadline); { // times are in whole seconds
		err = Maintain(t, d.Partitions(), o)
	}
	if err == nil || !strings.Contains(cdc.Explain(err), "wait until it is a day old") {
		t.Errorf("what was taken out just now: %v", err)
	}
	older(out[0].Name)
	d.Relayed()
	o.TTL = 25 * time.Hour
	testenv.Must(t, Maintain(t, d.Partitions(), o))
	if out := TakenOut(t, d.Partitions()); slices.ContainsFunc(out, func(p cdc.Partition) bool { return p.Default }) {
		t.Errorf("still there: %v", out)
	}
}
