package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// fakes are stages that record the calls they get, in order.
type fakes struct {
	mu      sync.Mutex
	events  []string
	batches int // how many the source offers before it waits
	// acquire, run, open, route, save and load, if set, answer for the stage.
	acquire func(attempt int) error
	run     func(attempt int) error
	open    func() error
	route   func(seq uint64) error
	refuse  uint64 // the sink answers this batch with an error
	save    func(c cdc.Checkpoint) error
	load    func() error
	hang    time.Duration // of each save after the claim

	attempts, runs int
	stored         *cdc.Checkpoint
	durable        chan cdc.Durable
	handed         uint64
	confirmed      uint64
	fence          string // the sink was opened with it
	replaced       []string
	fenced         bool       // another sink was opened with the fence since
	id             cdc.Source // what Acquire says it leads, its database aside
	held           bool       // by Acquire, until Release or the end of Run
	sink           sinkState
	lag            time.Duration
	kept           func() *cdc.Checkpoint // the relay's, which a reconnect compares
}

// sinkState is that of the sink. A call that does not belong to it is noted.
type sinkState string

const (
	isNew    sinkState = ""
	isOpen   sinkState = "open"
	isKilled sinkState = "killed"
)

// sinkMoves notes a call that belongs to one of some states, after which the sink is in another one.
func (f *fakes) sinkMoves(call string, next sinkState, from ...sinkState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains(from, f.sink) {
		f.events = append(f.events, fmt.Sprintf("%s while the sink is %q", call, f.sink))
	}
	f.sink = next
}

// sinkIs notes a call that belongs to one state.
func (f *fakes) sinkIs(state sinkState, call string) { f.sinkMoves(call, state, state) }

func (f *fakes) Lag() time.Duration { return f.lag }

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

func (f *fakes) Acquire(ctx context.Context, load cdc.Resumer) (cdc.Source, cdc.Position, error) {
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
	_, _, err := load(ctx, f.id)
	f.id.Database = "d"
	return f.id, "start", err
}

func (f *fakes) Release(context.Context) { f.held = false }

func (f *fakes) Run(ctx context.Context, q cdc.Queue) error {
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
	_, confirmed := f.progress()
	f.note("farewell %d", confirmed)
	return nil
}

func (f *fakes) Progress(seq uint64) cdc.Progress {
	return cdc.Progress{Position: cdc.Position(fmt.Sprint(seq))}
}

func (f *fakes) Confirm(seq uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := cdc.Position(fmt.Sprint(seq))
	if seq > 0 && (f.stored == nil || f.stored.Progress.Position != at || f.kept != nil && f.kept().Progress.Position != at) {
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

func (f *fakes) Open(_ context.Context, fence string, replaced ...string) error {
	f.fence, f.replaced = fence, replaced
	if f.open != nil {
		if err := f.open(); err != nil {
			return err
		}
	}
	f.sinkMoves("open", isOpen, isNew, isOpen)
	return nil
}

func (f *fakes) Send(ctx context.Context, r *cdc.Routed) error {
	f.sinkIs(isOpen, "send")
	d := cdc.Durable{First: r.Seq(), Last: r.Seq()}
	if r.Seq() == f.refuse {
		d.Err = cdc.Stop(cdc.ClassRuntime, "rejected", errors.New("refused"), "")
	}
	select {
	case f.durable <- d:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fakes) Fenced(context.Context) bool { return f.fenced }
func (f *fakes) Durable() <-chan cdc.Durable { return f.durable }

func (f *fakes) Kill() {
	f.note("kill")
	f.sinkMoves("kill", isKilled, isNew, isOpen, isKilled)
}

func (f *fakes) Reset() { f.sinkMoves("reset", isNew, isKilled) }

func (f *fakes) Load(context.Context) (cdc.Checkpoint, bool, error) {
	if f.load != nil {
		if err := f.load(); err != nil {
			return cdc.Checkpoint{}, false, err
		}
	}
	if f.stored == nil {
		return cdc.Checkpoint{}, false, nil
	}
	return *f.stored, true, nil
}

func (f *fakes) Claim(ctx context.Context, next, _ cdc.Checkpoint) error { return f.Save(ctx, next) }

func (f *fakes) Save(_ context.Context, c cdc.Checkpoint) error {
	if c.Sequence > 0 {
		<-time.After(f.hang)
	}
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

// options are the defaults, with a small window.
func options() Options {
	return Options{
		MaxEvents: 4, MaxBytes: 100, RetryInitial: 200 * time.Millisecond, RetryMax: time.Minute,
		StartupTimeout: 2 * time.Minute, ShutdownTimeout: 20 * time.Second, Dropped: func(string) {},
		Display: func(p cdc.Position) string { return string(p) },
	}
}

func newRelay(f *fakes, o Options) *Relay {
	f.durable, f.sink = make(chan cdc.Durable), isNew
	r := New(o, Stages{Source: f, Router: f, Sink: f, Checkpointer: f}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	f.kept = r.checkpointOrNone
	return r
}

// running runs the relay until stop is called, which returns its error.
func running(t *testing.T, r *Relay) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}

// runFor runs the relay and stops it after a time.
func runFor(t *testing.T, r *Relay, d time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return r.Run(ctx)
}

// mustDrive is drive for a relay that ends without an error.
func mustDrive(t *testing.T, f *fakes, o Options) *Relay {
	t.Helper()
	r, err := drive(t, f, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// drive runs the relay in a synctest bubble until it is idle, stops it, and returns its error.
func drive(t *testing.T, f *fakes, o Options) (*Relay, error) {
	t.Helper()
	r := newRelay(f, o)
	stop := running(t, r)
	<-time.After(time.Hour) // of the bubble's clock: everything that can happen has happened
	err := stop()
	for _, e := range f.events {
		if strings.Contains(e, "while the sink is") {
			t.Error(e)
		}
	}
	return r, err
}
