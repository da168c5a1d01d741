package cdctest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest/coverage"
)

// unconfirmed is the longest time between the acknowledgement of an event and its confirmation to the slot: the relay
// checks the publication each second and then sends a status update. It has a margin for a busy machine.
const unconfirmed = 4 * time.Second

// slow is how much longer that takes on a machine that hardly gets on.
const slow = 30 * time.Second

// Fault records a fault after which events may be repeated: as many as the window holds, and with the slot alone also
// those that were published and not confirmed yet. A run that was too short to confirm anything leaves the confirmed
// position of the runs before.
func (r *Rig) Fault(name string) { r.fault(Fault{Name: name}) }

// LeadIsCut records that the leader loses the lead and goes on: it publishes until it notices, beside the relay that takes over.
func (r *Rig) LeadIsCut() { r.fault(Fault{Name: "cut", beside: true}) }

func (r *Rig) fault(f Fault) {
	f.At, f.Budget = time.Now(), r.Window
	if r.checkpoint == SlotOnly {
		if f.At.Sub(r.Relay.started()) > unconfirmed {
			r.confirmed = f.At.Add(-unconfirmed)
		}
		f.Since = f.At.Sub(r.confirmed)
	}
	r.announce(f)
}

// announce adds a fault. In exactly-once mode no fault explains a repeat.
func (r *Rig) announce(f Fault) {
	r.announcing.Lock()
	defer r.announcing.Unlock()
	if r.Delivery == ExactlyOnce {
		f.Budget, f.Since = 0, 0
	}
	f.At = time.Now() // in order
	r.faults = append(r.faults, f)
}

// FaultUnbounded records a fault after which any number of events may be repeated.
func (r *Rig) FaultUnbounded(name string) {
	r.announce(Fault{Name: name, Budget: Unbounded})
}

// Repeated records that events are published again from the table, in each mode of delivery.
func (r *Rig) Repeated(name string) {
	r.announcing.Lock()
	defer r.announcing.Unlock()
	r.faults = append(r.faults, Fault{Name: name, At: time.Now(), Budget: Unbounded, FromTable: true})
}

// Exclude marks events that must not be published, because the configuration drops them.
func (r *Rig) Exclude(events ...*Event) {
	for _, e := range events {
		r.excluded[e.ID] = true
	}
}

// Truth reads the committed events.
func (r *Rig) Truth(ctx context.Context) (*Truth, error) {
	t := NewTruth(r.Topic, r.DB.RecordSource())
	return t, r.DB.Committed(ctx, t.Add)
}

// StopLoad stops all writers.
func (r *Rig) StopLoad() {
	r.tb.Helper()
	for _, l := range r.loads {
		r.Must(l.Stop())
		r.largest = max(r.largest, l.Ledger.Largest())
	}
}

// Verify stops the writers, waits until every committed event has arrived, reads the topics to their ends and checks the
// promises. What is broken is a [Violation].
func (r *Rig) Verify() *Report {
	r.tb.Helper()
	r.StopLoad()
	truth, err := r.Truth(r.Within(patience))
	r.Must(err)
	for _, l := range r.loads {
		r.tb.Logf("writers: %s", l.Ledger)
		if l.Ledger.uniform() {
			r.tb.Error("the writers rolled no transaction back, or none in part")
		}
		if err := l.Ledger.Check(truth); err != nil {
			r.Violation(Unpublished, "%v", err)
			r.tb.FailNow()
		}
	}
	missing := truth.published(r.excluded)
	late := r.arrive(func(ctx context.Context) error { return r.Reader.awaitIDs(ctx, missing) })
	r.awaitIdle()
	r.Must(r.Reader.CatchUp(r.Within(patience)))
	report := r.check(truth, 0)
	r.tb.Logf("%s; %d faults, %d starts of the relay", report, len(r.faults), r.Relay.Starts())
	if late != nil {
		r.tb.Errorf("not everything arrived: %v", late)
		if !r.idle(r.Within(patience)) {
			report.forget(Lost)
		}
	}
	if report.Err() == nil {
		r.counted("events", report.String())
	}
	if report.Count(Duplicates) > 0 && r.check(truth, slow).Count(Duplicates) == 0 {
		r.tb.Errorf("%s: %s", Duplicates, report.text(Duplicates))
		report.forget(Duplicates)
	}
	report.Fail(r.tb)
	return report
}

// longest is how long events may take to arrive while others do.
const longest = 4 * patience

// arrive waits for events: on a busy machine for as long as records keep coming.
func (r *Rig) arrive(await func(context.Context) error) error {
	for began := time.Now(); ; {
		before, _ := r.Reader.Count()
		err := await(r.Within(patience))
		after, _ := r.Reader.Count()
		if !errors.Is(err, context.DeadlineExceeded) || after == before || time.Since(began) > longest {
			return err
		}
	}
}

// missing ends the test because events did not arrive.
func (r *Rig) missing(err error) {
	r.tb.Helper()
	r.Must(r.Reader.CatchUp(r.Within(patience)))
	if errors.Is(err, context.DeadlineExceeded) && r.idle(r.Within(patience)) {
		r.Violation(Lost, "%v", err)
	}
	r.tb.Fatal(err)
}

// idle reports whether the relay leads and has nothing in flight: what it has not published by then it has lost. A relay that has
// ended, or waits for a server, may publish it later.
func (r *Rig) idle(ctx context.Context) bool {
	leader, err := r.Relay.Metric(ctx, "cdc_relay_leader")
	flying, inFlightErr := r.Relay.Metric(ctx, "cdc_relay_inflight_events")
	return err == nil && inFlightErr == nil && leader == 1 && flying == 0
}

// awaitIdle waits for repeats: those of other partitions may be in flight when the last event arrives. It gives up on a relay that
// cannot save its position.
func (r *Rig) awaitIdle() {
	_ = Await(r.Within(10*time.Second), "the relay to be idle", func(ctx context.Context) (bool, error) {
		return !r.Relay.Running() || r.idle(ctx), nil
	})
}

// counted notes for the table of the faults what was checked.
func (r *Rig) counted(kind, text string) {
	r.tb.Helper()
	c := coverage.Counted{Test: r.tb.Name(), Database: coverage.Postgres, Delivery: string(r.Delivery), Kind: kind, Text: text}
	if my, ok := r.DB.(*MySQL); ok {
		c.Database = my.Server.Flavor
	}
	r.Must(c.Append())
}

// check adds the largest transaction to the budget of each fault: it may have been open. With the slot alone, where time and not the
// window bounds repeats, a slow machine explains those of late more, also after clean stops.
func (r *Rig) check(truth *Truth, late time.Duration) *Report {
	faults := slices.Clone(r.faults)
	if late > 0 && r.checkpoint == SlotOnly {
		faults = append(faults, r.stops...)
		slices.SortStableFunc(faults, func(a, b Fault) int { return a.At.Compare(b.At) })
	}
	for i := range faults {
		if faults[i].Budget == Unbounded || r.Delivery != AtLeastOnce {
			continue
		}
		faults[i].Budget += r.largest
		if faults[i].beside {
			faults[i].Budget *= 2
		}
		if r.checkpoint == SlotOnly {
			faults[i].Since += late
		}
	}
	return Check(truth, r.Reader.Records(), CheckOptions{Excluded: r.excluded, Faults: faults})
}

// saved is the part of a stored checkpoint that tests need; package checkpoint documents its form.
type saved struct {
	Position    string `json:"position"`
	LastEventID string `json:"last_event_id"`
}

// Saved returns the stored position and the ID of the last event before it.
func (r *Rig) Saved(ctx context.Context) (position, lastEventID string, err error) {
	var text string
	switch r.checkpoint {
	case InRedis:
		text, err = r.Redis.Do(ctx, "GET", r.RedisKey())
	case InFile:
		var raw []byte
		raw, err = os.ReadFile(filepath.Join(r.Relay.dir, "position"))
		text = string(raw)
	case SlotOnly:
		err = errors.New("no checkpoint is configured")
	}
	if err != nil {
		return "", "", err
	}
	var s saved
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return "", "", fmt.Errorf("read checkpoint: %w", err)
	}
	return s.Position, s.LastEventID, nil
}

// AwaitSaved waits until the position behind these events was saved.
func (r *Rig) AwaitSaved(events []*Event) {
	r.tb.Helper()
	last := events[len(events)-1].ID.String()
	r.Await("the position behind event "+last+" to be saved", func(ctx context.Context) (bool, error) {
		_, id, err := r.Saved(ctx)
		return err == nil && id == last, nil
	})
}

// Largest reports a transaction of n rows that a test wrote without the rig.
func (r *Rig) Largest(n int) { r.largest = max(r.largest, n) }
