package relay

import (
	"cmp"
	"sync"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// window holds the batches between the source and the saved position, in order of Seq. It is the only queue in the
// relay. A batch passes through Offer (the source), take and setRouted (the router), complete (the sink's answer) and
// saved.
//
// It has two limits: bytes are given back when a batch is durable, events when its position was saved, or at once while
// none can be (notSaved). So a crash repeats at most maxEvents events, and the relay's memory is at most maxBytes and
// one batch. The sink decides how much of maxBytes is used: the source reads at most maxAhead bytes ahead of what the
// sink has taken.
//
// Safe for concurrent use.
type window struct {
	maxEvents, maxBytes, maxAhead int

	mu       sync.Mutex
	batches  []windowBatch // batches[head:] in order of seq, without gaps
	head     int
	next     int    // index of the first batch that take has not returned
	acked    uint64 // every batch up to here is durable
	sentSeq  uint64 // the last batch given to the sink
	events   int
	bytes    int
	ahead    int    // bytes not yet given to the sink
	lastID   string // of the last event of the durable prefix
	unsaved  bool   // positions cannot be saved now: what is durable leaves the window
	open     bool   // the last batch ends within a transaction
	refused  bool   // an offer was refused since space was signalled last
	closed   bool   // only the rest of an open transaction is taken
	atAck    bool   // see releaseAtAck
	eventSeq uint64 // the last batch with events that was given to the sink

	space chan struct{} // capacity 1
	work  chan struct{} // capacity 1: take may return a batch
	moved chan struct{} // capacity 1: acked has grown
}

type windowBatch struct {
	batch   *cdc.Batch // nil once durable
	routed  *cdc.Routed
	seq     uint64
	events  int
	bytes   int
	lastID  string
	durable bool
	offered time.Time
	commit  int64 // commit time of its first transaction, Unix microseconds; 0 for a heartbeat
}

// readAhead keeps the router busy while the source reads; more would only cost memory.
const readAhead = 1 << 20

// newWindow returns a window whose first batch follows the number last.
func newWindow(maxEvents, maxBytes int, last uint64) *window {
	return &window{
		acked: last, sentSeq: last, eventSeq: last,
		maxEvents: maxEvents, maxBytes: maxBytes, maxAhead: min(maxBytes, readAhead),
		space: make(chan struct{}, 1), work: make(chan struct{}, 1), moved: make(chan struct{}, 1),
	}
}

// releaseAtAck gives events back when they are durable, and lets the source read ahead as far as the window allows: a
// transaction in Kafka may be larger than the window, and the next one collects in it while one is committed.
func (w *window) releaseAtAck() { w.atAck, w.maxAhead = true, w.maxBytes }

// last returns the number of the last batch that was offered, or the one that the window began behind.
func (w *window) last() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.batches); n > w.head {
		return w.batches[n-1].seq
	}
	return w.acked
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Offer adds b unless the window is full or closed. An empty window takes any batch, because one larger than the
// limits could never pass otherwise.
func (w *window) Offer(b *cdc.Batch) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	events := b.Rows()
	full := w.events > 0 && w.events+events > w.maxEvents || w.bytes > 0 && w.bytes+b.Bytes > w.maxBytes
	if w.closed && !w.open || full || w.ahead > 0 && w.ahead+b.Bytes > w.maxAhead {
		w.refused = true
		return false
	}
	e := windowBatch{batch: b, seq: b.Seq, events: events, bytes: b.Bytes, offered: time.Now()}
	if events > 0 {
		e.commit = b.Txs[0].Time
	}
	w.batches = append(w.batches, e)
	w.events += events
	w.bytes += b.Bytes
	w.ahead += b.Bytes
	w.open = b.Open
	signal(w.work)
	return true
}

// Space receives a signal when there is room again after a refused offer.
func (w *window) Space() <-chan struct{} { return w.space }

// take returns the next batch to route, in order, or nil when there is none; work signals when to call again. The
// batch stays in the window.
func (w *window) take() *cdc.Batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.next == len(w.batches) {
		return nil
	}
	b := w.batches[w.next].batch
	w.next++
	return b
}

// setRouted stores what the router made of the batch that take returned last, which now goes to the sink.
func (w *window) setRouted(r *cdc.Routed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.at(r.Batch.Seq)
	e.routed, e.lastID = r, r.LastEventID
	w.sentSeq = e.seq
	if e.events > 0 {
		w.eventSeq = e.seq
	}
	w.ahead -= e.bytes
	w.wake()
}

// at returns the batch of seq, which must be held.
func (w *window) at(seq uint64) *windowBatch {
	return &w.batches[w.head+int(seq-w.batches[w.head].seq)]
}

// complete marks the batches first to last as durable and gives back their bytes. It appends their Routeds to done,
// for the caller to recycle.
func (w *window) complete(first, last uint64, done []*cdc.Routed) []*cdc.Routed {
	w.mu.Lock()
	defer w.mu.Unlock()
	for seq := first; seq <= last; seq++ {
		e := w.at(seq)
		if e.durable {
			continue
		}
		done = append(done, e.routed)
		w.bytes -= e.bytes
		if w.atAck {
			w.events -= e.events
			e.events = 0
		}
		e.batch, e.routed, e.durable = nil, nil, true
	}
	for i := w.head + int(w.acked-w.base()); i < w.next && w.batches[i].durable; i++ {
		w.acked, w.lastID = w.batches[i].seq, cmp.Or(w.batches[i].lastID, w.lastID)
		signal(w.moved)
	}
	if w.unsaved {
		w.drop(w.acked)
	}
	w.wake()
	return done
}

// base is the seq before that of the first batch.
func (w *window) base() uint64 {
	if w.head == len(w.batches) {
		return w.acked
	}
	return w.batches[w.head].seq - 1
}

// durable returns the end of the contiguous durable prefix and the ID of its last event.
func (w *window) durable() (seq uint64, lastID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.acked, w.lastID
}

// saved gives back the events of the durable batches up to seq: their position was saved.
func (w *window) saved(seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unsaved = false
	w.drop(seq)
	w.wake()
}

// notSaved gives back the events of all durable batches until a position is saved again, because publishing must not
// wait for the store.
func (w *window) notSaved() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unsaved = true
	w.drop(w.acked)
	w.wake()
}

// drop removes the durable batches up to seq.
func (w *window) drop(seq uint64) {
	for w.head < w.next && w.batches[w.head].durable && w.batches[w.head].seq <= seq {
		w.events -= w.batches[w.head].events
		w.batches[w.head] = windowBatch{}
		w.head++
	}
	w.compact()
}

// compact moves the batches to the front when half of the slice is unused.
func (w *window) compact() {
	if w.head < 64 || w.head < len(w.batches)/2 {
		return
	}
	n := copy(w.batches, w.batches[w.head:])
	clear(w.batches[n:])
	w.batches, w.next, w.head = w.batches[:n], w.next-w.head, 0
}

// wake signals space after a refused offer.
func (w *window) wake() {
	if w.refused && (!w.closed || w.open) {
		w.refused = false
		signal(w.space)
	}
}

// close makes Offer refuse every batch from now on. With finish it takes the rest of an open transaction first: a
// position is the end of a transaction, so the part that was published would be repeated.
func (w *window) close(finish bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed, w.open = true, w.open && finish
}

// windowState is a snapshot for status, metrics, watch and drain.
type windowState struct {
	events, bytes int
	acked         uint64
	// sent is the last batch given to the sink.
	sent uint64
	// sentEvents is the last batch with events that was given to the sink.
	sentEvents uint64
	// unsent is whether a batch was not yet given to the sink.
	unsent bool
	// open is whether the last batch ends within a transaction.
	open bool
	// The oldest batch that is not durable: when it was offered, and its commit time (zero for a heartbeat). Both
	// are zero when everything is durable.
	oldestOffered, oldestCommit time.Time
}

func (w *window) state() windowState {
	w.mu.Lock()
	defer w.mu.Unlock()
	st := windowState{events: w.events, bytes: w.bytes, acked: w.acked, sent: w.sentSeq, sentEvents: w.eventSeq, open: w.open}
	i := w.head + int(w.acked-w.base())
	if w.atAck { // what is not committed counts as in flight
		i = w.head
	}
	if n := len(w.batches); n > w.head {
		st.unsent = w.batches[n-1].seq > w.sentSeq
	}
	if i < len(w.batches) {
		st.oldestOffered = w.batches[i].offered
		if c := w.batches[i].commit; c != 0 {
			st.oldestCommit = time.UnixMicro(c)
		}
	}
	return st
}
