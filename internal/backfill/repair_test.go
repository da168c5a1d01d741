package backfill

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
)

// led is a database in which another relay may lead.
type led struct {
	Database

	ground Ground
	err    error
	finish error

	finished bool
}

func (d *led) Lead(context.Context, cdc.Resumer) (Ground, error) { return d.ground, d.err }

func (d *led) Close(context.Context) {}

func (d *led) Finish(context.Context) error {
	d.finished = true
	return d.finish
}

// takes is a queue with room. It notes the position of what it takes: that may be durable at once.
type takes struct {
	cdc.Queue

	of *Repair
	at cdc.Position
}

func (q *takes) Offer(b *cdc.Batch) bool {
	q.at = q.of.Progress(b.Seq).Position
	return true
}

// A repair that has led waits again when it starts over and somebody else leads: that may be its own session, which the server has not
// ended yet.
func TestRepairWaitsForALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &led{}
		s := NewRepair(db, Options{All: true}, slog.New(slog.DiscardHandler))
		acquire := func(leads error) error {
			db.err = leads
			_, _, err := s.Acquire(t.Context(), nil)
			return err
		}
		for range 2 {
			if err := acquire(nil); err != nil {
				t.Fatal(err)
			}
			<-time.After(leaderWait + time.Second)
			if err := acquire(cdc.ErrStandby); !errors.Is(err, cdc.ErrStandby) || isStop(err) {
				t.Errorf("at first: %v", err)
			}
		}
		<-time.After(leaderWait + time.Second)
		if err := acquire(cdc.ErrStandby); !isStop(err) {
			t.Errorf("after %s: %v", leaderWait, err)
		}
	})
}

func isStop(err error) bool {
	_, ok := errors.AsType[*cdc.StopError](err)
	return ok
}

// What is written to a table that was empty when the repair began is behind the position. A table without methods cannot be read. The
// repair is finished once that position is saved.
func TestEmptyTableIsNotRead(t *testing.T) {
	db := &led{}
	s := NewRepair(db, Options{}, slog.New(slog.DiscardHandler))
	s.ground = Ground{Tables: []tableread.Table{table{}}, Ends: []string{""}, Next: cdc.Progress{Position: "new"}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // it waits for the last save
	q := &takes{of: s}
	if err := s.publish(ctx, q); !errors.Is(err, context.Canceled) || q.at != "new" || db.finished {
		t.Errorf("handed on %q, finished: %t, %v", q.at, db.finished, err)
	}
}

// A repair that was done but for its last step is not intact while that fails.
func TestLastStepOfARepairFails(t *testing.T) {
	for _, finish := range []error{nil, errors.New("connection lost")} {
		s := NewRepair(&led{finish: finish}, Options{}, slog.New(slog.DiscardHandler))
		if _, _, err := s.Acquire(t.Context(), nil); (cdc.ReasonOf(err) == Intact) != (finish == nil) {
			t.Errorf("%v: %v", finish, err)
		}
	}
}

// A row that a repair by time has left out may be pending, and nothing tells.
func TestRepairByTimeUnsettles(t *testing.T) {
	for want, g := range map[string]Ground{"": {Probes: []tableread.Table{table{created: time.Now()}}}, "condition": {Where: "x"}} {
		g.Lost, g.Found, g.Stored = errors.New("lost"), true, cdc.Checkpoint{LastEventID: "e", Settled: "condition"}
		s := NewRepair(&led{ground: g}, Options{}, slog.New(slog.DiscardHandler))
		if _, _, err := s.Acquire(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if got := s.Claimed(g.Stored).Settled; got != want {
			t.Errorf("rows %+v: settled %q, want %q", s.gap.filter, got, want)
		}
	}
}
