package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// broker is a log of events, a sink with transactions, and the positions in it. Its faults are drawn at random.
type broker struct {
	fakes

	random *rand.Rand
	total  int // events in the source's log

	lock      sync.Mutex
	from      int            // events before the one that the next batch has
	indexes   map[uint64]int // of the event of each batch
	seq       uint64         // of the last batch
	open      []int          // events of the transaction that is open
	committed []int
	last      *cdc.Checkpoint
	answers   chan cdc.Durable
	failed    bool
	accepts   chan struct{} // closed while the transaction accepts batches
	rewinds   int
}

func (b *broker) Acquire(ctx context.Context, load cdc.Resumer) (cdc.Source, cdc.Position, error) {
	id := cdc.Source{SystemID: "s", Database: "d", Slot: "x"}
	c, found, err := load(ctx, id)
	if err != nil {
		return id, "", err
	}
	b.lock.Lock()
	defer b.lock.Unlock()
	b.from = 0
	if found {
		b.from = index(c.Progress.Position)
	}
	return id, cdc.Position(strconv.Itoa(b.from)), nil
}

func index(p cdc.Position) int {
	n, err := strconv.Atoi(string(p))
	if err != nil {
		panic(err)
	}
	return n
}

func (b *broker) Run(ctx context.Context, q cdc.Queue) error {
	for {
		b.lock.Lock()
		done := b.from == b.total
		b.indexes[b.seq+1] = b.from + 1
		batch := batchOf(b.seq+1, 1, 1)
		b.lock.Unlock()
		if done {
			<-ctx.Done()
			return nil
		}
		for !q.Offer(batch) {
			select {
			case <-q.Space():
			case <-ctx.Done():
				return nil
			}
		}
		b.lock.Lock()
		b.seq, b.from = b.seq+1, b.from+1
		b.lock.Unlock()
	}
}

func (b *broker) Release(context.Context) {}

func (b *broker) Confirm(seq uint64) {
	b.lock.Lock()
	defer b.lock.Unlock()
	if at := b.indexes[seq]; at > index(b.last.Progress.Position) {
		b.note("confirmed event %d before it was committed", at)
	}
}

// Save keeps no copy: each start reads the position that was committed.
func (b *broker) Save(_ context.Context, c cdc.Checkpoint) error {
	b.lock.Lock()
	defer b.lock.Unlock()
	if at := index(c.Progress.Position); at > index(b.last.Progress.Position) {
		b.note("saved position %d before it was committed", at)
	}
	return nil
}

func (b *broker) Claim(ctx context.Context, next, _ cdc.Checkpoint) error { return b.Save(ctx, next) }

func (b *broker) Progress(seq uint64) cdc.Progress {
	b.lock.Lock()
	defer b.lock.Unlock()
	return cdc.Progress{Position: cdc.Position(strconv.Itoa(b.indexes[seq]))}
}

// Open is called with the same transactional ID at every start, or it fences nobody.
func (b *broker) Open(_ context.Context, fence string, _ ...string) error {
	b.lock.Lock()
	defer b.lock.Unlock()
	if b.fence = cmp.Or(b.fence, fence); b.fence != fence {
		b.note("opened as %s, not as %s", fence, b.fence)
	}
	b.sinkMoves("open", isOpen, isNew, isOpen)
	b.open, b.failed, b.answers, b.accepts = nil, false, make(chan cdc.Durable, b.total+2), make(chan struct{})
	close(b.accepts)
	return nil
}

// Send ends the transaction, or fails, at random.
func (b *broker) Send(ctx context.Context, r *cdc.Routed) error {
	b.sinkIs(isOpen, "send")
	seq := r.Seq() // before the answer, after which r is used again
	b.lock.Lock()
	accepts := b.accepts
	b.lock.Unlock()
	select {
	case <-accepts:
	case <-ctx.Done():
		return ctx.Err()
	}
	b.lock.Lock()
	defer b.lock.Unlock()
	if b.failed {
		return nil
	}
	if b.random.IntN(10) == 0 {
		b.rewinds++
		b.failed = true
		b.answers <- cdc.Durable{First: seq, Last: seq, Err: fmt.Errorf("%w: out of sequence", cdc.ErrRewind)}
		return nil
	}
	b.open = append(b.open, b.indexes[seq])
	b.answers <- cdc.Durable{First: seq, Last: seq}
	if b.random.IntN(3) == 0 || b.indexes[seq] == b.total {
		b.accepts = make(chan struct{})
		b.answers <- cdc.Durable{First: seq + 1, Last: seq, Cut: true}
	}
	return nil
}

func (b *broker) Durable() <-chan cdc.Durable {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.answers
}

// Newest is asked before the sink is opened, and may not know of the last commit.
func (b *broker) Newest(context.Context) (cdc.Checkpoint, bool, error) {
	return cdc.Checkpoint{}, false, errors.New("not readable")
}

func (b *broker) Last(context.Context) (cdc.Checkpoint, bool, error) {
	b.sinkIs(isOpen, "barrier")
	b.lock.Lock()
	defer b.lock.Unlock()
	if b.random.IntN(10) == 0 {
		return cdc.Checkpoint{}, false, fmt.Errorf("%w: no answer to the barrier", cdc.ErrRewind)
	}
	if b.last == nil {
		return cdc.Checkpoint{}, false, nil
	}
	return *b.last, true, nil
}

func (b *broker) Abort(context.Context, string) error { return nil }

// Commit commits, or does not; and the relay is told, or is not.
func (b *broker) Commit(_ context.Context, c cdc.Checkpoint) error {
	b.sinkIs(isOpen, "commit")
	b.lock.Lock()
	defer b.lock.Unlock()
	if b.random.IntN(4) > 0 {
		b.committed, b.last = append(b.committed, b.open...), &c
	}
	committed := b.last != nil && *b.last == c
	b.open = nil
	if !committed || b.random.IntN(4) == 0 {
		b.rewinds++
		return fmt.Errorf("%w: no answer", cdc.ErrRewind)
	}
	select {
	case <-b.accepts: // the claim has no batches
	default:
		close(b.accepts)
	}
	return nil
}

// The relay is told of a commit that it was done, not done, or nothing; and it is started again at any point. Each event is
// committed once, in order, and nothing is saved or confirmed before.
func TestExactlyOnce(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			b := &broker{random: rand.New(rand.NewPCG(seed, 0)), total: 40, indexes: map[uint64]int{}}
			o := options()
			o.RetryMax = time.Second
			r := New(o, Stages{Source: b, Router: b, Sink: b, Checkpointer: b, Committer: b}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			go func() { // as the endpoint does
				for cdc.Sleep(ctx, 5*time.Second) == nil {
					r.Status()
				}
			}()
			if err := r.Run(ctx); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			want := make([]int, b.total)
			for i := range want {
				want[i] = i + 1
			}
			b.events = slices.DeleteFunc(b.events, func(e string) bool { return e == "kill" })
			if !slices.Equal(b.committed, want) || len(b.events) > 0 {
				t.Errorf("seed %d, %d rewinds: committed %v; %v", seed, b.rewinds, b.committed, b.events)
			}
		})
	}
}

// A relay that is fenced again and again while it leads says so, and ends.
func TestFencedForEver(t *testing.T) {
	var r rewinds
	fenced := fmt.Errorf("%w: %w", cdc.ErrRewind, cdc.ErrFenced)
	for i := range fencedLimit {
		var stop *cdc.StopError
		err := r.check(fenced)
		if last := i == fencedLimit-1; errors.As(err, &stop) != last || last && stop.Class != cdc.ClassFenced {
			t.Errorf("after %d: %v", i+1, err)
		}
		if err := r.check(cdc.ErrRewind); err != nil {
			t.Error(err)
		}
	}
}

// Relays that are frozen and thawed in turn fence each other. Each stands by in between, and neither ends.
func TestFencedByTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := &fakes{durable: make(chan cdc.Durable), id: cdc.Source{Slot: "x"}}
		f.run = func(attempt int) error {
			if attempt > fencedLimit {
				cancel()
				return nil
			}
			f.durable <- cdc.Durable{Err: fmt.Errorf("%w: %w", cdc.ErrRewind, cdc.ErrFenced)}
			return nil
		}
		f.acquire = func(attempt int) error {
			if attempt%2 == 0 {
				return cdc.ErrStandby
			}
			return nil
		}
		o := options()
		o.RetryMax = o.RetryInitial
		r := New(o, Stages{Source: f, Router: f, Sink: f, Checkpointer: f, Committer: &committer{}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
}

// The store, which has a copy of the position, is away when the relay has to start again. Publishing continues, unless the
// position in Kafka is that of an earlier time.
func TestRewindWithoutTheStore(t *testing.T) {
	away := errors.New("redis: connection refused")
	for name, superseded := range map[string]bool{"": false, "after at-least-once delivery": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kafka := &committer{}
				f := &fakes{durable: make(chan cdc.Durable), id: cdc.Source{Slot: "x"}}
				f.run = func(attempt int) error {
					if attempt == 1 {
						f.load = func() error { return away }
						f.save = func(cdc.Checkpoint) error { return away }
						kafka.last.ExactlyOnce = !superseded
						f.durable <- cdc.Durable{Err: cdc.ErrRewind}
					}
					return nil
				}
				r := New(options(), Stages{Source: f, Router: f, Sink: f, Checkpointer: f, Committer: kafka}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
				_ = runFor(t, r, time.Hour)
				if led := f.runs > 1; led == superseded {
					t.Errorf("led again: %v", led)
				}
			})
		})
	}
}

// What a relay noticed while it led says nothing of it when it stands by.
func TestSupersededRelayIsNeitherStalledNorLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{durable: make(chan cdc.Durable), id: cdc.Source{Slot: "x"}, batches: 1, lag: time.Minute}
		f.route = func(uint64) error {
			<-time.After(3 * time.Minute)
			return nil
		}
		f.run = func(int) error {
			go func() {
				<-time.After(2 * time.Minute)
				f.durable <- cdc.Durable{Err: cdc.ErrRewind}
			}()
			return nil
		}
		f.acquire = func(attempt int) error {
			if attempt > 1 {
				return cdc.ErrStandby
			}
			return nil
		}
		r := New(options(), Stages{Source: f, Router: f, Sink: f, Checkpointer: f, Committer: &committer{}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		stop := running(t, r)
		<-time.After(90 * time.Second)
		if st := r.Status(); !st.Stalled || st.Lag == 0 {
			t.Errorf("while it leads: %+v", st)
		}
		<-time.After(time.Hour)
		if st := r.Status(); st.State != StateStandby || st.Stalled || st.Lag != 0 {
			t.Errorf("%+v", st)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// The publication was altered while the relay was disconnected. It stops, and the position in Kafka says so: otherwise the next start would
// lead if the alteration was taken back.
func TestAlteredWhileDisconnectedIsCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kafka := &committer{}
		f := &fakes{durable: make(chan cdc.Durable), id: cdc.Source{Slot: "x"}}
		f.run = func(int) error { return errors.New("connection lost") }
		f.acquire = func(attempt int) error {
			if attempt == 1 {
				return nil
			}
			return cdc.PositionError(cdc.PublicationAltered, "publish what may be missing", "publication was altered")
		}
		r := New(options(), Stages{Source: f, Router: f, Sink: f, Checkpointer: f, Committer: kafka}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		stop, ok := errors.AsType[*cdc.StopError](runFor(t, r, time.Hour))
		if !ok || stop.Reason != cdc.PublicationAltered {
			t.Fatalf("ended with %v", stop)
		}
		if kafka.last.Source.Fingerprint != cdc.Altered || f.stored.Source.Fingerprint != cdc.Altered {
			t.Errorf("committed %+v, stored %+v", kafka.last.Source, f.stored.Source)
		}
	})
}

// forgetful is a source that has nothing more after its first attempt, and knows no position of what it handed on there.
type forgetful struct{ *fakes }

func (f *forgetful) Progress(seq uint64) cdc.Progress {
	if f.attempts > 1 {
		return cdc.Progress{}
	}
	return f.fakes.Progress(seq)
}

// An attempt that publishes nothing, behind one that was aborted, keeps the position, waits for no acknowledgement when it stops, and has
// no limit for its start.
func TestQuietAttemptAfterARewind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options()
		began, stopped := time.Now(), time.Time{}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		kafka := &committer{}
		f := &fakes{durable: make(chan cdc.Durable), id: cdc.Source{Slot: "x"}, batches: 3}
		f.open = func() error {
			if f.attempts > 1 && time.Since(began) < 10*o.StartupTimeout {
				return errors.New("connection refused")
			}
			return nil
		}
		f.run = func(attempt int) error {
			if attempt == 1 {
				go func() {
					<-time.After(time.Second)
					f.durable <- cdc.Durable{Err: cdc.ErrRewind}
				}()
				return nil
			}
			stopped = time.Now()
			return cdc.PositionError(cdc.PublicationAltered, "publish what may be missing", "publication was altered")
		}
		source := &forgetful{f}
		r := New(o, Stages{Source: source, Router: f, Sink: f, Checkpointer: f, Committer: kafka}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		stop, ok := errors.AsType[*cdc.StopError](r.Run(ctx))
		if !ok || stop.Reason != cdc.PublicationAltered || f.handed != 3 || f.runs != 2 {
			t.Fatalf("%d batches, %d runs, ended with %v", f.handed, f.runs, stop)
		}
		if took := time.Since(stopped); took > o.ShutdownTimeout/2 {
			t.Errorf("nothing was in flight, and the stop took %s", took)
		}
		if p := kafka.last.Progress.Position; p != "start" || kafka.last.Source.Fingerprint != cdc.Altered {
			t.Errorf("committed %q, fingerprint %q", p, kafka.last.Source.Fingerprint)
		}
	})
}

// Dead letters that are published again when the relay stops leave a transaction open, although every event is committed.
func TestStopAbortsWhatIsOpen(t *testing.T) {
	for name, connected := range map[string]bool{"while it leads": true, "while another one may lead": false} {
		synctest.Test(t, func(t *testing.T) {
			kafka := &committer{}
			f := &fakes{durable: make(chan cdc.Durable), id: cdc.Source{Slot: "x"}}
			f.run = func(int) error {
				if connected {
					return nil
				}
				return errors.New("connection lost")
			}
			f.acquire = func(attempt int) error {
				if attempt == 1 {
					return nil
				}
				return errors.New("connection refused")
			}
			r := New(options(), Stages{Source: f, Router: f, Sink: f, Checkpointer: f, Committer: kafka}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
			if err := runFor(t, r, time.Minute); err != nil || (kafka.aborts == 1) != connected {
				t.Errorf("%s: %d transactions were aborted, %v", name, kafka.aborts, err)
			}
		})
	}
}

// committer keeps the last position, as Kafka does.
type committer struct {
	last   *cdc.Checkpoint
	aborts int
}

func (c *committer) Last(context.Context) (cdc.Checkpoint, bool, error) {
	if c.last == nil {
		return cdc.Checkpoint{}, false, nil
	}
	return *c.last, true, nil
}

func (c *committer) Newest(ctx context.Context) (cdc.Checkpoint, bool, error) { return c.Last(ctx) }

func (c *committer) Commit(_ context.Context, next cdc.Checkpoint) error {
	c.last = &next
	return nil
}

func (c *committer) Abort(context.Context, string) error {
	c.aborts++
	return nil
}

// unanswered is a sink that acknowledges nothing.
type unanswered struct {
	*fakes
	committer

	aborts int
}

func (u *unanswered) Send(context.Context, *cdc.Routed) error {
	u.sinkIs(isOpen, "send")
	return nil
}

func (u *unanswered) Abort(context.Context, string) error {
	u.sinkIs(isKilled, "abort")
	if !u.held {
		u.note("abort after the source was given up")
	}
	u.aborts++
	return nil
}

// A stop that cannot drain aborts what is open. The sink is killed before, and the source is held until then: an abort fences, and a
// successor that leads already must not be fenced.
func TestAbortAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &unanswered{fakes: &fakes{durable: make(chan cdc.Durable), id: cdc.Source{Slot: "x"}, batches: 1}}
		r := New(options(), Stages{Source: u, Router: u, Sink: u, Checkpointer: u, Committer: u}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		if err := runFor(t, r, time.Minute); err != nil || u.aborts != 1 {
			t.Errorf("aborted %d times: %v", u.aborts, err)
		}
		if got := fmt.Sprint(u.events); got != "[kill kill farewell 0 kill]" { // at the start, for the abort, and at the end
			t.Errorf("events %s", got)
		}
	})
}

// A relay whose successor moved the slot and ended leads again, from the position in Kafka, also without a checkpoint store.
// If the position there is behind the slot, the start says so.
func TestExactlyOnceAfterASuccessor(t *testing.T) {
	for name, byHand := range map[string]bool{"by a successor": false, "by hand": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakes{durable: make(chan cdc.Durable), id: cdc.Source{Slot: "x"}}
				f.run = func(attempt int) error {
					if attempt == 1 {
						return errors.New("cut")
					}
					return nil
				}
				f.acquire = func(attempt int) error {
					if attempt == 2 || attempt > 2 && byHand {
						return cdc.PositionError("slot_moved", "", "slot is elsewhere")
					}
					return nil
				}
				r := New(options(), Stages{Source: f, Router: f, Sink: f, Checkpointer: f, Committer: &committer{}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
				if err := runFor(t, r, time.Hour); (err != nil) != byHand || f.attempts != 3 {
					t.Errorf("%d attempts, ended with %v", f.attempts, err)
				}
			})
		})
	}
}

// Exactly-once delivery follows at-least-once delivery, whose checkpoint cannot be replaced: nothing is published. A copy of its own
// may stay as it is.
func TestFirstClaimMustSucceed(t *testing.T) {
	for name, copied := range map[string]bool{"at-least-once": false, "copy": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				id := cdc.Source{Database: "d"}
				f := &fakes{durable: make(chan cdc.Durable), id: id, stored: &cdc.Checkpoint{Source: id, Generation: 1, ExactlyOnce: copied}}
				f.save = func(cdc.Checkpoint) error { return errors.New("read only") }
				kafka := &committer{}
				if copied {
					kafka.last = f.stored
				}
				r := New(options(), Stages{Source: f, Router: f, Sink: f, Checkpointer: f, Committer: kafka}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
				_ = runFor(t, r, time.Minute)
				if (f.runs > 0) != copied {
					t.Errorf("read %d times", f.runs)
				}
			})
		})
	}
}

// hidden is a position in Kafka that an open transaction of an earlier relay hides from the barrier until that one is fenced. Another one
// is behind it.
type hidden struct {
	committer

	sink *fakes
}

func (h *hidden) Last(ctx context.Context) (cdc.Checkpoint, bool, error) {
	if !slices.Contains(h.sink.replaced, h.last.Fence) {
		return cdc.Checkpoint{}, false, errors.New("it is readable to an earlier offset only")
	}
	last, found, err := h.committer.Last(ctx)
	last.Fence = "last"
	return last, found, err
}

// The transactional ID has changed, and there is no checkpoint: the last position names the one that is to be fenced. If it is another
// source's, its relay may be a healthy one.
func TestEarlierTransactionalIDIsFenced(t *testing.T) {
	id := cdc.Source{SystemID: "s", Database: "d"}
	for of, fenced := range map[cdc.Source][]string{id: {"earlier", "last"}, {SystemID: "other", Database: "d"}: nil} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakes{durable: make(chan cdc.Durable), id: id}
			kafka := &hidden{committer{last: &cdc.Checkpoint{Source: of, Generation: 1, ExactlyOnce: true, Fence: "earlier"}}, f}
			r := New(options(), Stages{Source: f, Router: f, Sink: f, Checkpointer: f, Committer: kafka}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
			if err := runFor(t, r, time.Minute); !slices.Equal(f.replaced, fenced) || (err == nil && f.runs == 1) != (fenced != nil) {
				t.Errorf("position of %s: opened in place of %q, read %d times: %v", of.SystemID, f.replaced, f.runs, err)
			}
		})
	}
}
