package relay

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

func batchOf(seq uint64, rows, bytes int) *cdc.Batch {
	b := &cdc.Batch{Seq: seq, Table: &cdc.Table{Columns: make([]cdc.Column, 1)}, Spans: make([]cdc.Span, rows), Bytes: bytes}
	if rows > 0 {
		b.Txs = []cdc.Tx{{Time: 1}}
	}
	return b
}

// Random steps on a window have the same effect as on a plain list of the offered batches.
func TestWindowAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const maxEvents, maxBytes = 20, 100
		w := newWindow(maxEvents, maxBytes, 0)
		var offered, taken uint64
		durable := map[uint64]bool{}
		rows, bytes := map[uint64]int{}, map[uint64]int{}
		var acked, released uint64
		var storeAway bool
		held := func() (events, size int) {
			for seq := released + 1; seq <= offered; seq++ {
				events += rows[seq]
				if !durable[seq] {
					size += bytes[seq]
				}
			}
			for seq := uint64(1); seq <= released; seq++ {
				if !durable[seq] {
					t.Fatalf("batch %d was released before it was durable", seq)
				}
			}
			return events, size
		}
		t.Repeat(map[string]func(*rapid.T){
			"offer": func(t *rapid.T) {
				seq, n, size := offered+1, rapid.IntRange(0, 30).Draw(t, "rows"), rapid.IntRange(0, 150).Draw(t, "bytes")
				events, inUse := held()
				want := (events == 0 || events+n <= maxEvents) && (inUse == 0 || inUse+size <= maxBytes)
				if got := w.Offer(batchOf(seq, n, size)); got != want {
					t.Fatalf("offer of %d rows, %d bytes to %d events, %d bytes: %v", n, size, events, inUse, got)
				}
				if want {
					offered, rows[seq], bytes[seq] = seq, n, size
				}
			},
			"take": func(t *rapid.T) {
				b := w.take()
				if (b != nil) != (taken < offered) {
					t.Fatalf("take returned %v with %d of %d taken", b, taken, offered)
				}
				if b == nil {
					return
				}
				if taken++; b.Seq != taken {
					t.Fatalf("took batch %d, want %d", b.Seq, taken)
				}
				w.setRouted(&cdc.Routed{Batch: b})
			},
			"complete": func(t *rapid.T) {
				if taken == released { // nothing is with the sink
					return
				}
				first := rapid.Uint64Range(released+1, taken).Draw(t, "first")
				last := rapid.Uint64Range(first, taken).Draw(t, "last")
				done := w.complete(first, last, nil)
				for _, r := range done {
					if durable[r.Seq()] {
						t.Fatalf("batch %d was returned twice", r.Seq())
					}
					durable[r.Seq()] = true
				}
				for seq := first; seq <= last; seq++ {
					if !durable[seq] {
						t.Fatalf("batch %d was completed and its Routed not returned", seq)
					}
				}
				for durable[acked+1] {
					acked++
				}
				if storeAway {
					released = acked
				}
			},
			"saved": func(t *rapid.T) {
				seq := rapid.Uint64Range(0, acked).Draw(t, "seq")
				w.saved(seq)
				released, storeAway = max(released, seq), false
			},
			"notSaved": func(*rapid.T) {
				w.notSaved()
				released, storeAway = acked, true
			},
			"": func(t *rapid.T) {
				st := w.state()
				if events, size := held(); st.events != events || st.bytes != size {
					t.Fatalf("window holds %d events, %d bytes, want %d, %d", st.events, st.bytes, events, size)
				}
				if seq, _ := w.durable(); seq != acked || st.acked != acked {
					t.Fatalf("durable prefix ends at %d, want %d", seq, acked)
				}
				if st.oldestOffered.IsZero() != (acked == offered) {
					t.Fatalf("oldest batch in flight is %v with %d of %d durable", st.oldestOffered, acked, offered)
				}
			},
		})
	})
}

// A refused offer is followed by a signal as soon as there is room, or the source would wait for ever.
func TestWindowSignalsSpace(t *testing.T) {
	w := newWindow(1, 1, 0)
	w.Offer(batchOf(1, 1, 1))
	if w.Offer(batchOf(2, 1, 1)) {
		t.Fatal("a full window took a batch")
	}
	w.setRouted(&cdc.Routed{Batch: w.take()})
	w.complete(1, 1, nil)
	<-w.Space() // bytes were given back; the events are not yet
	if w.Offer(batchOf(2, 1, 1)) {
		t.Fatal("a window took more events than it may before the position was saved")
	}
	w.saved(1)
	<-w.Space()
	if !w.Offer(batchOf(2, 1, 1)) {
		t.Fatal("an empty window refused a batch")
	}
}

// However large the window, the source reads at most readAhead bytes ahead of the sink.
func TestWindowLimitsReadAhead(t *testing.T) {
	w := newWindow(1000, 64*readAhead, 0)
	offered := uint64(0)
	offer := func() bool {
		ok := w.Offer(batchOf(offered+1, 1, readAhead/4))
		if ok {
			offered++
		}
		return ok
	}
	for offer() {
	}
	if offered != 4 {
		t.Errorf("%d batches of a quarter were taken ahead of the sink, want 4", offered)
	}
	w.setRouted(&cdc.Routed{Batch: w.take()})
	<-w.Space()
	if !offer() || offer() {
		t.Error("a batch that went to the sink makes room for one more")
	}
}

func TestClosedWindowRefuses(t *testing.T) {
	w := newWindow(10, 10, 0)
	w.close(true)
	if w.Offer(batchOf(1, 1, 1)) {
		t.Fatal("a closed window took a batch")
	}
}

// A window that is closed within a transaction takes the rest of it, unless the run has failed.
func TestClosedWindowTakesTheRestOfATransaction(t *testing.T) {
	for _, finish := range []bool{true, false} {
		w := newWindow(10, 10, 0)
		offer := func(seq uint64, open bool) bool {
			b := batchOf(seq, 1, 1)
			b.Open = open
			return w.Offer(b)
		}
		offer(1, true)
		w.close(finish)
		if offer(2, true) != finish || finish && !offer(3, false) {
			t.Errorf("finish %v: the rest was taken: %v", finish, !finish)
		}
		if st := w.state(); st.open || offer(4, true) {
			t.Errorf("finish %v: a batch behind the transaction was taken", finish)
		}
	}
}
