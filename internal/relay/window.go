package relay

import (
	"sync"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// window holds the batches between the source and the saved position, in order of Seq. It is the only
// queue in the relay, and bounded twice: bytes are given back when a batch is durable, events when its
// position was saved (or could not be). So a crash repeats at most maxEvents events, and the relay's
// memory is at most maxBytes and one batch.
//
// How much of maxBytes is used is the sink's decision: the source reads no further than maxAhead bytes ahead of what
// the sink has taken.
//
// Safe for concurrent use.
type window struct {
	maxEvents, maxBytes, maxAhead int

	mu      sync.Mutex
	entries []entry // entries[head:] in order of seq, without gaps
	head    int
	next    int    // index of the first entry that was not taken yet
	acked   uint64 // every batch up to here is durable
	sentSeq uint64 // the last batch given to the sink
	events  int
	bytes   int
	ahead   int  // bytes that were not sent yet
	refused bool // an offer was refused since the last signal
	closed  bool

	space chan struct{} // capacity 1
	work  chan struct{} // capacity 1: an entry may be taken
	moved chan struct{} // capacity 1: acked moved
}

type entry struct {
	batch   *cdc.Batch // nil once durable
	routed  *cdc.Routed
	seq     uint64
	events  int
	bytes   int
	lastID  string
	durable bool
	taken   time.Time // when it was offered
	commit  int64     // commit time of its first transaction, Unix microseconds; 0 for a heartbeat
}

// readAhead keeps the router busy while the source reads on; more would only be memory.
const readAhead = 1 << 20

func newWindow(maxEvents, maxBytes int) *window {
	return &window{
		maxEvents: maxEvents, maxBytes: maxBytes, maxAhead: min(maxBytes, readAhead),
		space: make(chan struct{}, 1), work: make(chan struct{}, 1), moved: make(chan struct{}, 1),
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Offer takes b unless the window is full or closed. One batch is always taken when none is held, or a
// batch larger than the bounds could never pass.
func (w *window) Offer(b *cdc.Batch) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	events := b.Rows()
	full := w.events > 0 && w.events+events > w.maxEvents || w.bytes > 0 && w.bytes+b.Bytes > w.maxBytes
	if w.closed || full || w.ahead > 0 && w.ahead+b.Bytes > w.maxAhead {
		w.refused = true
		return false
	}
	e := entry{batch: b, seq: b.Seq, events: events, bytes: b.Bytes, taken: time.Now()}
	if events > 0 {
		e.commit = b.Txs[0].Time
	}
	w.entries = append(w.entries, e)
	w.events += events
	w.bytes += b.Bytes
	w.ahead += b.Bytes
	signal(w.work)
	return true
}

// Space is signalled after room was made for a refused batch.
func (w *window) Space() <-chan struct{} { return w.space }

// take returns the next batch to route, in order, or nil when there is none now; work tells when to ask
// again. The batch stays the window's.
func (w *window) take() *cdc.Batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.next == len(w.entries) {
		return nil
	}
	b := w.entries[w.next].batch
	w.next++
	return b
}

// sent notes what was made of the batch that take returned last.
func (w *window) sent(r *cdc.Routed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entry(r.Batch.Seq)
	e.routed, e.lastID = r, r.LastEventID
	w.sentSeq = e.seq
	w.ahead -= e.bytes
	w.wake()
}

// entry returns the entry of seq, which must be held.
func (w *window) entry(seq uint64) *entry {
	return &w.entries[w.head+int(seq-w.entries[w.head].seq)]
}

// settle notes that the batches first to last are durable, and returns what was made of them, appended
// to done, for the caller to release.
func (w *window) settle(first, last uint64, done []*cdc.Routed) []*cdc.Routed {
	w.mu.Lock()
	defer w.mu.Unlock()
	for seq := first; seq <= last; seq++ {
		e := w.entry(seq)
		if e.durable {
			continue
		}
		done = append(done, e.routed)
		w.bytes -= e.bytes
		e.batch, e.routed, e.durable = nil, nil, true
	}
	for i := w.head + int(w.acked-w.base()); i < w.next && w.entries[i].durable; i++ {
		w.acked = w.entries[i].seq
		signal(w.moved)
	}
	w.wake()
	return done
}

// base is the seq before the first entry's.
func (w *window) base() uint64 {
	if w.head == len(w.entries) {
		return w.acked
	}
	return w.entries[w.head].seq - 1
}

// durable returns the end of the contiguous durable prefix and the id of its last event ("" if the
// prefix held none since the last save).
func (w *window) durable() (seq uint64, lastID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := w.head; i < len(w.entries) && w.entries[i].seq <= w.acked; i++ {
		if id := w.entries[i].lastID; id != "" {
			lastID = id
		}
	}
	return w.acked, lastID
}

// forget gives back the events of the batches up to seq: their position was saved, or could not be.
func (w *window) forget(seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.head < w.next && w.entries[w.head].durable && w.entries[w.head].seq <= seq {
		w.events -= w.entries[w.head].events
		w.entries[w.head] = entry{}
		w.head++
	}
	w.compact()
	w.wake()
}

// compact moves the entries to the front when half of the slice is spent.
func (w *window) compact() {
	if w.head < 64 || w.head < len(w.entries)/2 {
		return
	}
	n := copy(w.entries, w.entries[w.head:])
	clear(w.entries[n:])
	w.entries, w.next, w.head = w.entries[:n], w.next-w.head, 0
}

func (w *window) wake() {
	if w.refused && !w.closed {
		w.refused = false
		signal(w.space)
	}
}

// close admits nothing more.
func (w *window) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
}

// windowState is a snapshot for status, metrics and the watchdog.
type windowState struct {
	events, bytes int
	acked         uint64
	// sent is the last batch given to the sink.
	sent uint64
	// oldest is the first batch that is not durable: when it was taken in, and its commit time (zero
	// for a heartbeat). Both zero when everything is durable.
	oldestTaken, oldestCommit time.Time
}

func (w *window) state() windowState {
	w.mu.Lock()
	defer w.mu.Unlock()
	st := windowState{events: w.events, bytes: w.bytes, acked: w.acked, sent: w.sentSeq}
	if i := w.head + int(w.acked-w.base()); i < len(w.entries) {
		st.oldestTaken = w.entries[i].taken
		if c := w.entries[i].commit; c != 0 {
			st.oldestCommit = time.UnixMicro(c)
		}
	}
	return st
}
