package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

func TestEverythingIsSavedAndConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{batches: 50}
		r := mustDrive(t, f, options())
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

// A source that reads behind counts as lag, although no event is in flight.
func TestLagOfTheSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mustDrive(t, &fakes{lag: time.Hour}, options())
		if st := r.Status(); st.Lag != time.Hour || st.InFlightEvents != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// A database whose clock is ahead makes no lag negative: an event that waits has waited for as long as it is here.
func TestLagOfAClockThatIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRelay(&fakes{}, options())
		b := batchOf(1, 1, 1)
		b.Txs[0].Time = time.Now().Add(time.Hour).UnixMicro()
		r.current.Load().window.Offer(b)
		<-time.After(time.Minute)
		if st := r.Status(); st.Lag != time.Minute {
			t.Errorf("lag %s", st.Lag)
		}
	})
}

// The checkpoint is claimed with a newer generation before anything is published. It is newer also than that of a leader
// that is frozen and unknown, because the store has lost its checkpoint, and than one of a clock that was ahead.
//
//covers:all 30 state
func TestClaimStartsANewGeneration(t *testing.T) {
	future := uint64(time.Now().AddDate(100, 0, 0).UnixMilli())
	for stored, want := range map[uint64]func(began uint64) uint64{
		7:      func(began uint64) uint64 { return began },
		future: func(uint64) uint64 { return future + 1 },
	} {
		claimsGeneration(t, stored, want)
	}
}

func claimsGeneration(t *testing.T, stored uint64, want func(began uint64) uint64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began := uint64(time.Now().UnixMilli())
		f := &fakes{stored: &cdc.Checkpoint{Generation: stored, Sequence: 9, Progress: cdc.Progress{Position: "x", Commit: "w"}, Source: cdc.Source{Fingerprint: "other tables"}}}
		var first cdc.Checkpoint
		f.save = func(c cdc.Checkpoint) error {
			if first.Generation == 0 {
				first = c
			}
			return nil
		}
		mustDrive(t, f, options())
		if first.Generation != want(began) || first.Sequence != 0 || first.Progress.Position != "start" || first.Progress.Commit != "" {
			t.Errorf("claimed with %+v", first)
		}
	})
}

// A standby that was promoted while the relay ran has another timeline, and positions behind the fork are only its own: a
// checkpoint that named the old one would be refused at the next start.
func TestReconnectedSourceIsSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{batches: 1, id: cdc.Source{SystemID: "74", Slot: "s", Timeline: 1}}
		f.run = func(attempt int) error {
			if attempt > 1 {
				return nil
			}
			f.id.Timeline = 2
			return errors.New("connection lost")
		}
		r := mustDrive(t, f, options())
		if got := f.stored.Source.Timeline; got != 2 || r.Status().Source.Timeline != 2 {
			t.Errorf("timeline %d is stored, status says %d; want 2", got, r.Status().Source.Timeline)
		}
	})
}

// The sink's fence is unique to the WAL or binlog, and the same at the next start.
func TestFenceIsUniqueAndKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options()
		opened := func(f *fakes) string {
			mustDrive(t, f, o)
			return f.fence
		}
		slot := cdc.Source{SystemID: "74", Slot: "s"}
		if got := opened(&fakes{id: slot}); got != "cdc-relay.74.d.s" {
			t.Errorf("with a slot: opened under %q", got)
		}
		f := &fakes{id: cdc.Source{SystemID: "mysql"}}
		first := opened(f)
		if second := opened(f); second != first || f.stored.Fence != first {
			t.Errorf("without a slot: opened under %q, then under %q, stored %q", first, second, f.stored.Fence)
		}
		if other := opened(&fakes{id: f.id}); other == first || !strings.HasPrefix(other, "cdc-relay.mysql.d.") {
			t.Errorf("two binlogs of the same name: opened under %q and %q", first, other)
		}
		o.UniqueSource = true
		if got := opened(f); got != "cdc-relay.mysql.d" || !slices.Equal(f.replaced, []string{first}) || f.stored.Fence != got {
			t.Errorf("a random one of earlier: opened under %q in place of %q, stored %q", got, f.replaced, f.stored.Fence)
		}
		if got := opened(f); got != "cdc-relay.mysql.d" || f.replaced != nil {
			t.Errorf("later: opened under %q in place of %q", got, f.replaced)
		}
		o.TransactionalID = "orders"
		if got := opened(f); got != "orders" || !slices.Equal(f.replaced, []string{"cdc-relay.mysql.d"}) || f.stored.Fence != got {
			t.Errorf("configured: opened under %q in place of %q, stored %q", got, f.replaced, f.stored.Fence)
		}
	})
}

func TestReconnect(t *testing.T) {
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
				return cdc.Stop(cdc.ClassConfig, "password", errors.New("refused"), "")
			}
			return nil
		}
		mustDrive(t, f, options())
		if f.runs != 4 || f.confirmed != 3 {
			t.Errorf("%d attempts, confirmed %d", f.runs, f.confirmed)
		}
	})
}

// The same error again and again, without progress, is a problem that no accepted start ends. Progress ends it, and so does a connection
// that holds, unless the error names what the source cannot get past.
func TestStandstill(t *testing.T) {
	refused := errors.New("out of memory")
	named := &cdc.FixableError{Cause: refused, Fix: "go past it"}
	unsent := &cdc.UnsentError{Where: "transaction 1", Past: "go past it", Cause: refused}
	for name, tt := range map[string]struct {
		err     error
		lasts   time.Duration // each stream, and the last one without end
		batches int           // in the last stream
		other   bool          // each error is another one
		stands  bool          // after three
		ends    bool          // within the last stream
	}{
		"at once":            {err: refused, stands: true, ends: true},
		"named":              {err: named, stands: true},
		"named, slowly":      {err: named, lasts: 2 * time.Minute, stands: true},
		"named, progresses":  {err: named, stands: true, batches: 1, ends: true},
		"within one, slowly": {err: unsent, lasts: 2 * time.Minute, other: true, stands: true},
		"seldom":             {err: refused, lasts: 2 * time.Minute, ends: true},
		"others":             {err: refused, other: true, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, last := &fakes{}, make(chan struct{})
				f.run = func(attempt int) error {
					if attempt > standstillAfter {
						last <- struct{}{}
						<-time.After(2 * time.Minute)
						f.batches = tt.batches
						return nil
					}
					<-time.After(tt.lasts)
					if tt.other {
						return fmt.Errorf("%d: %w", attempt, tt.err)
					}
					return tt.err
				}
				r := newRelay(f, options())
				stop := running(t, r)
				<-last
				synctest.Wait()
				<-time.After(2 * unreadyAfter)
				if st := r.Status(); st.Connected == tt.stands || (len(st.Problems) > 0) != tt.stands || (r.Ready() != nil) != tt.stands || (st.Lag >= unreadyAfter) != tt.stands {
					t.Errorf("after %d errors: %+v, ready: %v", standstillAfter, st, r.Ready())
				}
				<-time.After(4 * time.Minute)
				if st := r.Status(); st.Connected != tt.ends || (len(st.Problems) == 0) != tt.ends || (r.Ready() == nil) != tt.ends {
					t.Errorf("at last: %+v, ready: %v", st, r.Ready())
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// loads notes the position that Acquire finds at each attempt; "" where it finds no checkpoint.
type loads struct {
	*fakes

	found []cdc.Position
}

func (l *loads) Acquire(ctx context.Context, load cdc.Resumer) (cdc.Source, cdc.Position, error) {
	return l.fakes.Acquire(ctx, func(ctx context.Context, _ cdc.Source) (cdc.Checkpoint, bool, error) {
		c, found, err := load(ctx, cdc.Source{})
		if !found {
			c = cdc.Checkpoint{}
		}
		l.found = append(l.found, c.Progress.Position)
		return c, found, err
	})
}

// A connection that is lost before the first save, for example while Kafka is being opened, continues from the claimed
// checkpoint.
func TestReconnectBeforeTheFirstSave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{batches: 1, stored: &cdc.Checkpoint{Generation: 7, Sequence: 9, Progress: cdc.Progress{Position: "C"}}}
		f.run = func(attempt int) error {
			if attempt == 1 {
				return errors.New("connection lost")
			}
			return nil
		}
		r := newRelay(f, options())
		l := &loads{fakes: f}
		r.Source = l
		if err := runFor(t, r, time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(l.found); got != "[C start]" {
			t.Errorf("Acquire found %s, want the stored checkpoint and then the claimed one", got)
		}
	})
}

type lockedStore struct {
	*fakes

	closed atomic.Bool
}

func (s *lockedStore) Close() error {
	s.closed.Store(true)
	return nil
}

// The store of a parked relay is free for the repair that its error asks for.
func TestParkedRelayKeepsRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{batches: 1, refuse: 1}
		o := options()
		o.Park = true
		r := newRelay(f, o)
		store := &lockedStore{fakes: f}
		r.Checkpointer = store
		stop := running(t, r)
		<-time.After(time.Hour)
		if st := r.Status(); st.State != StateParked || r.Ready() == nil || !store.closed.Load() {
			t.Errorf("state %s, the store is closed: %v", st.State, store.closed.Load())
		}
		if err := stop(); err == nil {
			t.Error("a parked relay ended without its error")
		}
	})
}

// repairing is a source that moves its position with its third batch.
type repairing struct{ *fakes }

func (r *repairing) Progress(seq uint64) cdc.Progress {
	if seq < 3 {
		return cdc.Progress{Position: "start"}
	}
	return r.fakes.Progress(seq)
}

func (*repairing) Identity(uint64) cdc.Source { return cdc.Source{} }

func (*repairing) Claimed(found cdc.Checkpoint) cdc.Checkpoint { return found }

// A repair that was interrupted begins again behind the last event before the gap, not behind one that it has published itself, and knows
// when the gap began.
func TestLastEventIsBeforeThePosition(t *testing.T) {
	for batches, want := range map[int]string{2: "before", 3: "3"} {
		synctest.Test(t, func(t *testing.T) {
			saved := time.Now().Add(-time.Hour)
			f := &fakes{batches: batches, stored: &cdc.Checkpoint{Progress: cdc.Progress{Position: "start"}, LastEventID: "before", SavedAt: saved}}
			r := newRelay(f, options())
			r.Source = &repairing{f}
			if err := runFor(t, r, time.Hour); err != nil || f.stored.Sequence == 0 || f.stored.LastEventID != want || f.stored.SavedAt.Equal(saved) != (batches < 3) {
				t.Errorf("%d batches: stored %+v, %v", batches, f.stored, err)
			}
		})
	}
}

// A store that hangs delays publishing once, until the first save has failed, and not at every further attempt.
func TestHangingStoreDelaysPublishingOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{batches: 1000, hang: saveTimeout}
		f.save = func(c cdc.Checkpoint) error {
			if c.Sequence > 0 {
				return context.DeadlineExceeded
			}
			return nil
		}
		f.route = func(uint64) error { <-time.After(100 * time.Millisecond); return nil }
		r := newRelay(f, options())
		stop := running(t, r)
		<-time.After(time.Minute)
		if handed, _ := f.progress(); handed < 540 {
			t.Errorf("%d events in a minute, want 10 in each second but for the first %s", handed, saveTimeout)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// As long as nothing was published, the claimed position is saved again.
func TestClaimIsSavedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{}
		mustDrive(t, f, options())
		if f.stored.Progress.Position != "start" || f.stored.Sequence == 0 {
			t.Errorf("stored %+v", f.stored)
		}
	})
}

// An idle relay stops at once although the store is away: there is nothing to wait for.
func TestIdleRelayStopsWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{}
		f.save = func(c cdc.Checkpoint) error {
			if c.Sequence > 0 {
				return errors.New("unreachable")
			}
			return nil
		}
		began := time.Now()
		if err := runFor(t, newRelay(f, options()), time.Minute); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began) - time.Minute; took >= options().ShutdownTimeout {
			t.Errorf("took %s to end", took)
		}
	})
}

// A source that hangs up again and again because Kafka is slow comes back soon each time.
func TestHangingUpIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const times = 50
		began, o := time.Now(), options()
		f := &fakes{run: func(attempt int) error {
			if attempt > times {
				return nil
			}
			return fmt.Errorf("%w: full", cdc.ErrHungUp)
		}}
		var took time.Duration
		f.acquire = func(int) error { took = time.Since(began); return nil }
		mustDrive(t, f, o)
		if f.runs != times+1 || took > times*o.RetryInitial*3/2 {
			t.Errorf("%d attempts in %s", f.runs, took)
		}
	})
}

// The pauses double, with jitter, and none is longer than RetryMax.
func TestPausesDouble(t *testing.T) {
	o := options()
	o.RetryInitial, o.RetryMax = 100*time.Millisecond, time.Minute
	retry := newRelay(&fakes{}, o).pauses()
	for want := o.RetryInitial; want < 2*o.RetryMax; want *= 2 {
		pause, about := retry.next(), min(want, o.RetryMax)
		if pause < about/2 || pause > min(about*3/2, o.RetryMax) {
			t.Errorf("paused %s where %s, up to half shorter or longer, is due", pause, about)
		}
	}
}

// A claim that fails gives the slot back before it is retried: the relay that holds the checkpoint may be waiting for
// the slot.
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
		mustDrive(t, f, options())
		if got := fmt.Sprint(f.events); got != "[farewell 1 kill]" || f.held {
			t.Errorf("events %s, slot held %v", got, f.held)
		}
	})
}

// A relay that lost its connection stops if another relay has taken the lead.
func TestSupersededRelayStops(t *testing.T) {
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

// A relay whose successor moved the position and ended was superseded. Without a successor somebody else moved it. Where nothing is
// stored, the fence in Kafka tells the two apart.
func TestPositionMovedWhileDisconnected(t *testing.T) {
	for name, tt := range map[string]struct {
		successors uint64
		fenced     bool
		reason     string
		class      cdc.Class
	}{
		"by a successor":                         {1, true, cdc.SlotMoved, cdc.ClassFenced},
		"by hand":                                {0, false, cdc.SlotMoved, cdc.ClassPosition},
		"by a successor, nothing stored":         {0, true, cdc.SlotMoved, cdc.ClassFenced},
		"a successor, nothing stored, and a gap": {0, true, "slot_missing", cdc.ClassPosition},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakes{run: func(int) error { return errors.New("cut") }, fenced: tt.fenced}
				f.acquire = func(attempt int) error {
					if attempt == 1 {
						return nil
					}
					f.stored = &cdc.Checkpoint{Generation: f.stored.Generation + tt.successors}
					return cdc.PositionError(tt.reason, "", "slot is elsewhere")
				}
				_, err := drive(t, f, options())
				if stop, ok := errors.AsType[*cdc.StopError](err); !ok || stop.Class != tt.class {
					t.Errorf("ended with %v", err)
				}
			})
		})
	}
}

// A failed save may have been stored, with its answer lost: the next save needs a higher sequence.
func TestSaveAfterALostAnswer(t *testing.T) {
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
