package publisher

import "github.com/cdc-relay/cdc-relay/internal/cdc"

// kind is what messages are of.
type kind uint8

const (
	relayed     kind = iota // a Routed of the relay, which gets an answer
	ownWrite                // a write of the publisher's own, without which it cannot go on
	republished             // a letter that is published again, which fails alone
)

// pendingBatch is what messages in queues belong to: it follows them until the last one is acknowledged or dropped.
type pendingBatch struct {
	kind kind
	seq  uint64 // of the batch, or of the one that was accepted last
	// open counts the messages that are not resolved, and of a Routed one until all of them are queued.
	open int

	// committed is when the first transaction of a Routed was committed, in Unix microseconds; 0: unknown.
	committed int64
	routed    *cdc.Routed

	written func() // of a write: called when nothing is open any more
	item    *item  // the letter
}

// resolve marks n messages of b as acknowledged or dropped.
func (l *loop) resolve(b *pendingBatch, n int) {
	switch b.kind {
	case relayed:
		l.window.resolve(b, n)
	case ownWrite:
		if b.open -= n; b.open == 0 {
			b.written()
		}
	case republished:
		b.item.chunk.one()
	}
}

// entry is a message in a partition's queue.
type entry struct {
	m       *cdc.Message
	pending *pendingBatch
	body    int32 // bodySize
	// partition is one more than the partition, or 0 for the key's.
	partition int32
	// rejected is why a broker rejects this very record; nil: none does.
	rejected *rejection
}

// window holds the batches without an answer, in the order of Send.
type window struct {
	open   fifo[*pendingBatch]
	unused []*pendingBatch
	// answers wait for the relay to receive them.
	answers fifo[cdc.Durable]
}

func (w *window) add(r *cdc.Routed) *pendingBatch {
	b := &pendingBatch{}
	if n := len(w.unused); n > 0 {
		b, w.unused = w.unused[n-1], w.unused[:n-1]
	}
	b.seq, b.open, b.committed, b.routed = r.Seq(), len(r.Messages)+len(r.Refused)+1, 0, r
	if len(r.Batch.Txs) > 0 {
		b.committed = r.Batch.Txs[0].Time
	}
	w.open.push(b)
	return b
}

// resolve marks n messages of b as acknowledged or dropped, and answers b when none is left.
func (w *window) resolve(b *pendingBatch, n int) {
	b.open -= n
	if b.open > 0 {
		return
	}
	b.routed = nil
	w.answer(b.seq)
	for w.open.len() > 0 && (*w.open.at(0)).open == 0 {
		w.unused = append(w.unused, w.open.pop())
	}
}

// answer adds an answer, which neighbours share.
func (w *window) answer(seq uint64) {
	if n := w.answers.len(); n > 0 {
		if last := w.answers.at(n - 1); last.Err == nil && !last.Cut && last.Last+1 == seq {
			last.Last = seq
			return
		}
	}
	w.answers.push(cdc.Durable{First: seq, Last: seq})
}

// oldest returns the sequence number of the first batch that is not resolved.
func (w *window) oldest() (seq uint64, found bool) {
	if w.open.len() == 0 {
		return 0, false
	}
	return (*w.open.at(0)).seq, true
}

// weight is the entry's size in batches and buffers.
func (e *entry) weight() int { return e.size() + recordGrowth }

// size is that of the record as the first of its batch.
func (e *entry) size() int { return varintSize(int(e.body)) + int(e.body) }
