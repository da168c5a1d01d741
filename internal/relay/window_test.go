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

// TestWindow drives a window with random steps and compares it with a plain list of what was offered.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const maxEvents, maxBytes = 20, 100
		w := newWindow(maxEvents, maxBytes)
		var offered, taken uint64
		durable := map[uint64]bool{}
		rows, bytes := map[uint64]int{}, map[uint64]int{}
		var acked, forgotten uint64
		held := func() (events, octets int) {
			for seq := forgotten + 1; seq <= offered; seq++ {
				events += rows[seq]
				if !durable[seq] {
					octets += bytes[seq]
				}
			}
			for seq := uint64(1); seq <= forgotten; seq++ {
				if !durable[seq] {
					t.Fatalf("batch %d was forgotten before it was durable", seq)
				}
			}
			return events, octets
		}
		t.Repeat(map[string]func(*rapid.T){
			"offer": func(t *rapid.T) {
				seq, n, size := offered+1, rapid.IntRange(0, 30).Draw(t, "rows"), rapid.IntRange(0, 150).Draw(t, "bytes")
				events, octets := held()
				want := (events == 0 || events+n <= maxEvents) && (octets == 0 || octets+size <= maxBytes)
				if got := w.Offer(batchOf(seq, n, size)); got != want {
					t.Fatalf("offer of %d rows, %d octets to %d events, %d octets: %v", n, size, events, octets, got)
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
				w.sent(&cdc.Routed{Batch: b})
			},
			"settle": func(t *rapid.T) {
				if taken == forgotten { // nothing is with the sink
					return
				}
				first := rapid.Uint64Range(forgotten+1, taken).Draw(t, "first")
				last := rapid.Uint64Range(first, taken).Draw(t, "last")
				done := w.settle(first, last, nil)
				for _, r := range done {
					if durable[r.Seq()] {
						t.Fatalf("batch %d was released twice", r.Seq())
					}
					durable[r.Seq()] = true
				}
				for seq := first; seq <= last; seq++ {
					if !durable[seq] {
						t.Fatalf("batch %d was settled and not released", seq)
					}
				}
				for durable[acked+1] {
					acked++
				}
			},
			"forget": func(t *rapid.T) {
				seq := rapid.Uint64Range(0, acked).Draw(t, "seq")
				w.forget(seq)
				forgotten = max(forgotten, seq)
			},
			"": func(t *rapid.T) {
				st := w.state()
				if events, octets := held(); st.events != events || st.bytes != octets {
					t.Fatalf("window holds %d events, %d octets, want %d, %d", st.events, st.bytes, events, octets)
				}
				if seq, _ := w.durable(); seq != acked || st.acked != acked {
					t.Fatalf("durable prefix ends at %d, want %d", seq, acked)
				}
				if st.oldestTaken.IsZero() != (acked == offered) {
					t.Fatalf("oldest batch in flight is %v with %d of %d durable", st.oldestTaken, acked, offered)
				}
			},
		})
	})
}

// A refused offer is followed by a signal as soon as room is made, or a source would wait for ever.
func TestWindowSignalsSpace(t *testing.T) {
	w := newWindow(1, 1)
	w.Offer(batchOf(1, 1, 1))
	if w.Offer(batchOf(2, 1, 1)) {
		t.Fatal("a full window took a batch")
	}
	w.sent(&cdc.Routed{Batch: w.take()})
	w.settle(1, 1, nil)
	<-w.Space() // octets were given back; the events are not yet
	if w.Offer(batchOf(2, 1, 1)) {
		t.Fatal("a window took more events than it may before the position was saved")
	}
	w.forget(1)
	<-w.Space()
	if !w.Offer(batchOf(2, 1, 1)) {
		t.Fatal("an empty window refused a batch")
	}
}

// However large the window, the source reads no further ahead of the sink than it takes to keep the router busy.
func TestWindowReadsAheadOfTheSinkWithinABound(t *testing.T) {
	w := newWindow(1000, 64*readAhead)
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
	w.sent(&cdc.Routed{Batch: w.take()})
	<-w.Space()
	if !offer() || offer() {
		t.Error("a batch that went to the sink makes room for one more")
	}
}

func TestClosedWindowTakesNothing(t *testing.T) {
	w := newWindow(10, 10)
	w.close()
	if w.Offer(batchOf(1, 1, 1)) {
		t.Fatal("a closed window took a batch")
	}
}
