package relay

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// fullLetters is a sink that accepts so many batches, because there may be no more dead letters then.
type fullLetters struct {
	*fakes

	room     uint64
	accepted atomic.Uint64
}

func (f *fullLetters) Send(ctx context.Context, r *cdc.Routed) error {
	if r.Seq() > f.room {
		<-ctx.Done()
		return ctx.Err()
	}
	f.accepted.Store(r.Seq())
	return f.fakes.Send(ctx, r)
}

func (f *fullLetters) Stuck() (last uint64, stuck bool) {
	last = f.accepted.Load()
	return last, last >= f.room
}

// letterStage is the stage of a fullLetters.
type letterStage struct{ *fullLetters }

func (letterStage) Load(context.Context, cdc.Source, cdc.Progress) error { return nil }
func (letterStage) Run(context.Context, func() cdc.Progress) error       { return nil }

// stoppingSource hands on ten batches and stops. The router takes a second for each, which is longer than it takes to save the one before.
type stoppingSource struct{ *fakes }

func (f stoppingSource) Run(_ context.Context, q cdc.Queue) error {
	for seq := range uint64(10) {
		q.Offer(batchOf(seq+1, 1, 1))
	}
	return cdc.Stop(cdc.ClassRuntime, "bad", errors.New("bad"), "set the position behind it")
}

func (f stoppingSource) Route(b *cdc.Batch, dst *cdc.Routed) error {
	<-time.After(time.Second)
	return f.fakes.Route(b, dst)
}

// The fix for what the source stops at may move the position past it: everything before is published first, or the fix says to start again.
func TestSourceStops(t *testing.T) {
	for timeout, want := range map[time.Duration]struct{ position, fix string }{
		time.Minute:             {"10", "set the position behind it"},
		3500 * time.Millisecond: {"3", "start it again, so that what was in flight is published; if it stops here again, set the position behind it"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := stoppingSource{&fakes{durable: make(chan cdc.Durable)}}
			o := options()
			o.MaxEvents, o.ShutdownTimeout = 10, timeout
			r := New(o, Stages{Source: f, Router: f, Sink: f, Checkpointer: f}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
			err := r.Run(t.Context())
			if fix := cdc.Fix(err); fix != want.fix || f.stored.Progress.Position != cdc.Position(want.position) {
				t.Errorf("%s: saved %s, %v: %s", timeout, f.stored.Progress.Position, err, fix)
			}
		})
	}
}

// A save that began before the relay stops does not say why: another one follows.
func TestAlteredDuringASave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{hang: time.Second, run: func(int) error {
			<-time.After(saveAgain + time.Second/2)
			return cdc.PositionError(cdc.PublicationAltered, "publish what may be missing", "publication was altered")
		}}
		if _, err := drive(t, f, options()); cdc.ReasonOf(err) != cdc.PublicationAltered || f.stored.Source.Fingerprint != cdc.Altered {
			t.Errorf("stored %+v, ended with %v", f.stored.Source, err)
		}
	})
}

// A relay that may have no more dead letters says so, and stops at once: what the sink has accepted is saved, and nothing waits for the rest.
func TestStopWhileThereMayBeNoMoreLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fullLetters{fakes: &fakes{batches: 4, durable: make(chan cdc.Durable)}, room: 2}
		var log bytes.Buffer
		r := New(options(), Stages{Source: f, Router: f, Sink: f, Checkpointer: f, Letters: letterStage{f}}, slog.New(slog.NewTextHandler(&log, nil)), prometheus.NewRegistry())
		began := time.Now()
		if err := runFor(t, r, time.Hour); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began) - time.Hour; took >= options().ShutdownTimeout || f.stored.Progress.Position != "2" {
			t.Errorf("took %s, saved %s", took, f.stored.Progress.Position)
		}
		if said := log.String(); !strings.Contains(said, "stalled: there may be no more dead letters") || strings.Contains(said, "does not acknowledge") {
			t.Error(said)
		}
	})
}

// hungStore does not answer before its caller gives up.
type hungStore struct{ *fakes }

func (h hungStore) Save(ctx context.Context, c cdc.Checkpoint) error {
	if c.Sequence > 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	return h.fakes.Save(ctx, c)
}

// An exactly-once relay that ends does not wait for the copy of the position, and does not say that it tries again.
func TestSaveThatTheEndInterrupts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{durable: make(chan cdc.Durable)}
		var log bytes.Buffer
		r := New(options(), Stages{Source: f, Router: f, Sink: f, Checkpointer: hungStore{f}, Committer: &committer{}}, slog.New(slog.NewTextHandler(&log, nil)), prometheus.NewRegistry())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		time.AfterFunc(saveAgain+time.Second, cancel) // within a save
		if err := r.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(log.String(), "retrying") {
			t.Error(log.String())
		}
	})
}
