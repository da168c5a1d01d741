package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// fakes are stages that write down what happens to them, in order.
type fakes struct {
	mu      sync.Mutex
	events  []string
	batches int // the source offers so many, then waits
	// acquire, route, send and save, if set, answer for the stage.
	acquire func(attempt int) error
	run     func(attempt int) error
	route   func(seq uint64) error
	refuse  uint64 // the sink answers this batch with an error
	save    func(c cdc.Checkpoint) error

	attempts, runs int
	stored         *cdc.Checkpoint
	durable        chan cdc.Durable
	handed         uint64
	confirmed      uint64
	held           bool // by Acquire, until Release or the end of Run
}

func (f *fakes) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, fmt.Sprintf(format, args...))
}

func (f *fakes) progress() (handed, confirmed uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.handed, f.confirmed
}

func (f *fakes) Acquire(ctx context.Context, load func(context.Context) (cdc.Checkpoint, bool, error)) (cdc.Source, cdc.Position, error) {
	f.attempts++
	if f.acquire != nil {
		if err := f.acquire(f.attempts); err != nil {
			return cdc.Source{}, "", err
		}
	}
	if f.held {
		f.note("acquired twice")
	}
	f.held = true
	_, _, err := load(ctx)
	return cdc.Source{Database: "d"}, "start", err
}

func (f *fakes) Release(context.Context) { f.held = false }

func (f *fakes) Run(ctx context.Context, q Queue) error {
	f.runs++
	defer func() { f.held = false }()
	if f.run != nil {
		if err := f.run(f.runs); err != nil {
			return err
		}
	}
	for f.handed < uint64(f.batches) {
		b := batchOf(f.handed+1, 1, 1)
		for !q.Offer(b) {
			select {
			case <-q.Space():
			case <-ctx.Done():
				return nil
			}
		}
		f.mu.Lock()
		f.handed++
		f.mu.Unlock()
	}
	<-ctx.Done()
	f.note("farewell %d", f.confirmed)
	return nil
}

func (f *fakes) Progress(seq uint64) cdc.Progress {
	return cdc.Progress{Position: cdc.Position(fmt.Sprint(seq))}
}

func (f *fakes) Confirm(seq uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stored == nil || f.stored.Progress.Position != cdc.Position(fmt.Sprint(seq)) {
		f.events = append(f.events, fmt.Sprintf("confirmed %d before it was saved", seq))
	}
	f.confirmed = seq
}

func (f *fakes) Route(b *cdc.Batch, dst *cdc.Routed) error {
	if f.route != nil {
		if err := f.route(b.Seq); err != nil {
			return err
		}
	}
	dst.Messages = append(dst.Messages, cdc.Message{Topic: "t"})
	dst.LastEventID = fmt.Sprint(b.Seq)
	return nil
}

func (f *fakes) Open(context.Context) error { return nil }

func (f *fakes) Send(ctx context.Context, r *cdc.Routed) error {
	d := cdc.Durable{First: r.Seq(), Last: r.Seq()}
	if r.Seq() == f.refuse {
		d.Err = cdc.Stop(cdc.ClassRuntime, "rejected", errors.New("refused"))
	}
	select {
	case f.durable <- d:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fakes) Durable() <-chan cdc.Durable { return f.durable }
func (f *fakes) Kill()                       { f.note("kill") }

func (f *fakes) Load(context.Context) (cdc.Checkpoint, bool, error) {
	if f.stored == nil {
		return cdc.Checkpoint{}, false, nil
	}
	return *f.stored, true, nil
}

func (f *fakes) Save(_ context.Context, c cdc.Checkpoint) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.save != nil {
		if err := f.save(c); err != nil {
			return err
		}
	}
	f.stored = &c
	return nil
}

func options() Options {
	return Options{
		MaxEvents: 4, MaxBytes: 100, RetryInitial: 10 * time.Millisecond, RetryMax: time.Second,
		SaveInterval: 5 * time.Millisecond, ShutdownTimeout: time.Second, StallAfter: time.Minute,
	}
}

func newRelay(f *fakes, o Options) *Relay {
	f.durable = make(chan cdc.Durable)
	return New(o, Stages{Source: f, Router: f, Sink: f, Checkpointer: f}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
}

// drive runs the relay in a bubble until it is idle, stops it softly, and returns its error.
func drive(t *testing.T, f *fakes, o Options) (*Relay, error) {
	t.Helper()
	r := newRelay(f, o)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var err error
	done := make(chan struct{})
	go func() { err = r.Run(ctx); close(done) }()
	<-time.After(time.Hour) // of the bubble's clock: everything that can happen has happened
	cancel()
	<-done
	return r, err
}

func TestEverythingIsSavedAndConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{batches: 50}
		r, err := drive(t, f, options())
		if err != nil {
			t.Fatal(err)
		}
		if f.confirmed != 50 || f.stored.Progress.Position != "50" || f.stored.LastEventID != "50" {
			t.Errorf("confirmed %d, stored %+v", f.confirmed, f.stored)
		}
		if got := fmt.Sprint(f.events); got != "[farewell 50 kill]" {
			t.Errorf("events %s", got)
		}
		if st := r.Status(); st.InFlightEvents != 0 || st.Lag != 0 {
			t.Errorf("status after everything was published: %+v", st)
		}
	})
}

// The checkpoint is claimed with a newer generation before anything is published.
func TestClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{stored: &cdc.Checkpoint{Generation: 7, Sequence: 9, Progress: cdc.Progress{Position: "x"}}}
		var first cdc.Checkpoint
		f.save = func(c cdc.Checkpoint) error {
			if first.Generation == 0 {
				first = c
			}
			return nil
		}
		if _, err := drive(t, f, options()); err != nil {
			t.Fatal(err)
		}
		if first.Generation != 8 || first.Sequence != 0 || first.Progress.Position != "start" {
			t.Errorf("claimed with %+v", first)
		}
	})
}

func TestStandbyTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{batches: 1}
		f.acquire = func(attempt int) error {
			if attempt < 5 {
				return fmt.Errorf("held: %w", cdc.ErrStandby)
			}
			return nil
		}
		if _, err := drive(t, f, options()); err != nil {
			t.Fatal(err)
		}
		if f.confirmed != 1 {
			t.Errorf("confirmed %d after takeover", f.confirmed)
		}
	})
}

func TestSourceIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{batches: 3}
		f.run = func(attempt int) error {
			if attempt < 4 {
				return errors.New("connection lost")
			}
			return nil
		}
		// What worked once is expected to work again, also after an error that looks like configuration.
		f.acquire = func(attempt int) error {
			if attempt == 3 {
				return cdc.Stop(cdc.ClassConfig, "password", errors.New("refused"))
			}
			return nil
		}
		if _, err := drive(t, f, options()); err != nil {
			t.Fatal(err)
		}
		if f.runs != 4 || f.confirmed != 3 {
			t.Errorf("%d attempts, confirmed %d", f.runs, f.confirmed)
		}
	})
}

func TestPositionErrorStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{}
		f.run = func(int) error { return cdc.Stop(cdc.ClassPosition, "slot_lost", errors.New("lost")) }
		_, err := drive(t, f, options())
		var stop *cdc.StopError
		if !errors.As(err, &stop) || stop.Reason != "slot_lost" || f.runs != 1 {
			t.Errorf("after %d attempts: %v", f.runs, err)
		}
	})
}

// What stands before an event that stops the relay is published, saved and confirmed; nothing after.
func TestRouteErrorStopsInFrontOfTheEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{batches: 10}
		f.route = func(seq uint64) error {
			if seq == 6 {
				return cdc.Stop(cdc.ClassRuntime, "unroutable", errors.New("no route"))
			}
			return nil
		}
		_, err := drive(t, f, options())
		var stop *cdc.StopError
		if !errors.As(err, &stop) || f.confirmed != 5 || f.stored.Progress.Position != "5" {
			t.Errorf("confirmed %d, stored %+v: %v", f.confirmed, f.stored, err)
		}
	})
}

func TestRefusedRecordStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{batches: 10, refuse: 4}
		r, err := drive(t, f, options())
		var stop *cdc.StopError
		if !errors.As(err, &stop) || stop.Reason != "rejected" || f.confirmed != 3 {
			t.Errorf("confirmed %d: %v", f.confirmed, err)
		}
		if st := r.Status(); st.State != StateStopped || r.Ready() == nil {
			t.Errorf("state %s, ready %v", st.State, r.Ready())
		}
	})
}

func TestParkedRelayWaitsForAPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{batches: 1, refuse: 1}
		o := options()
		o.Park = true
		r := newRelay(f, o)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		<-time.After(time.Hour)
		if st := r.Status(); st.State != StateParked || r.Ready() == nil {
			t.Errorf("state %s", st.State)
		}
		cancel()
		if err := <-done; err == nil {
			t.Error("a parked relay ended without its error")
		}
	})
}

// While the store is away publishing goes on, beyond the window's count, and nothing is confirmed.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{batches: 100}
		away := true
		f.save = func(c cdc.Checkpoint) error {
			if away && c.Sequence > 0 {
				return errors.New("unreachable")
			}
			return nil
		}
		r := newRelay(f, options())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		<-time.After(time.Minute)
		if handed, confirmed := f.progress(); handed != 100 || confirmed != 0 {
			t.Errorf("handed on %d, confirmed %d while the store was away", handed, confirmed)
		}
		f.mu.Lock()
		away = false
		f.mu.Unlock()
		<-time.After(time.Minute)
		if _, confirmed := f.progress(); confirmed != 100 {
			t.Errorf("confirmed %d after the store came back", confirmed)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{batches: 2}
		f.save = func(c cdc.Checkpoint) error {
			if c.Sequence > 0 {
				return fmt.Errorf("refused: %w", cdc.ErrFenced)
			}
			return nil
		}
		began := time.Now()
		err := newRelay(f, options()).Run(t.Context())
		var stop *cdc.StopError
		if !errors.As(err, &stop) || stop.Class != cdc.ClassFenced || f.confirmed != 0 {
			t.Errorf("confirmed %d: %v", f.confirmed, err)
		}
		if took := time.Since(began); took >= options().ShutdownTimeout {
			t.Errorf("a fenced relay took %s to end", took)
		}
	})
}

// A stop waits until the position is saved, not only until a save was tried.
func TestStopWaitsForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{batches: 10}
		back := time.Now().Add(time.Minute + options().ShutdownTimeout/2)
		f.save = func(c cdc.Checkpoint) error {
			if c.Sequence > 0 && time.Now().Before(back) {
				return errors.New("unreachable")
			}
			return nil
		}
		r := newRelay(f, options())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if f.confirmed != 10 || f.stored.Progress.Position != "10" || f.stored.LastEventID != "10" {
			t.Errorf("confirmed %d, stored %+v", f.confirmed, f.stored)
		}
	})
}

// What never worked is a mistake of the configuration, after a little patience.
func TestStartFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{}
		f.acquire = func(int) error { return errors.New("unreachable") }
		began := time.Now()
		r := newRelay(f, options())
		err := r.Run(t.Context())
		var stop *cdc.StopError
		if !errors.As(err, &stop) || stop.Class != cdc.ClassConfig || f.attempts < 3 {
			t.Errorf("after %d attempts: %v", f.attempts, err)
		}
		if took := time.Since(began); took > startPatience+options().RetryMax {
			t.Errorf("took %s", took)
		}
	})
}

// A claim that fails gives the slot back before it is tried again: whoever keeps it from succeeding may
// be waiting for that slot.
func TestFailedClaimReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{batches: 1}
		claims := 0
		f.save = func(c cdc.Checkpoint) error {
			if c.Sequence == 0 {
				if claims++; claims < 3 {
					return errors.New("locked")
				}
			}
			return nil
		}
		if _, err := drive(t, f, options()); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(f.events); got != "[farewell 1 kill]" || f.held {
			t.Errorf("events %s, slot held %v", got, f.held)
		}
	})
}

// Who was cut off and finds another relay in its place gives way.
func TestSuperseded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{}
		f.run = func(int) error { return errors.New("connection lost") }
		f.acquire = func(attempt int) error {
			if attempt > 1 {
				return fmt.Errorf("held: %w", cdc.ErrStandby)
			}
			return nil
		}
		_, err := drive(t, f, options())
		var stop *cdc.StopError
		if !errors.As(err, &stop) || stop.Class != cdc.ClassFenced {
			t.Errorf("after %d attempts: %v", f.attempts, err)
		}
	})
}

// A save that failed may have been stored, with its answer lost: the next one must come after it.
func TestLostAnswerOfASave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{batches: 3}
		var kept cdc.Checkpoint
		lost := false
		f.save = func(c cdc.Checkpoint) error {
			if c.Generation == kept.Generation && c.Sequence <= kept.Sequence && c.Sequence > 0 {
				return fmt.Errorf("sequence %d after %d: %w", c.Sequence, kept.Sequence, cdc.ErrFenced)
			}
			kept = c
			if c.Sequence == 1 && !lost {
				lost = true
				return errors.New("i/o timeout")
			}
			return nil
		}
		if _, err := drive(t, f, options()); err != nil || f.confirmed != 3 {
			t.Errorf("confirmed %d: %v", f.confirmed, err)
		}
	})
}
