package wal

import (
	"sync"
	"sync/atomic"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// chunkSize is how much one read may take from the socket. The rows of large batches stay where they were read:
// a chunk is the arena of the batches decoded from it, and is read into again when the last of them is released.
// The rows of small batches are copied out: one row would keep a whole chunk, most of which may be rows of other
// tables.
const chunkSize = 256 << 10

// leastInPlace is the size of the smallest batch whose rows stay in the chunk.
const leastInPlace = chunkSize / 8

// maxFree bounds the chunks, and the batches, kept for reuse. Not in a sync.Pool: that one empties with
// every garbage collection.
const maxFree = 64

type chunk struct {
	buf     []byte
	refs    atomic.Int32 // the reader holds one, each batch one
	charged int          // bytes of the batches that stay in it; the reader's
}

// uncharged is what the batches in c keep in memory and were not charged for, when the reader is done with it; 0 where
// that is little.
func (c *chunk) uncharged() int {
	if c.charged == 0 || c.charged >= len(c.buf)/2 {
		return 0
	}
	return len(c.buf) - c.charged
}

// arenas recycles chunks and batches. Safe for concurrent use: batches are released by the relay.
type arenas struct {
	mu      sync.Mutex
	chunks  []*chunk
	batches []*pooledBatch
}

// take returns a chunk of at least size bytes with one reference.
func (a *arenas) take(size int) *chunk {
	if size > chunkSize { // a row larger than a chunk gets one of its own, which is not kept
		c := &chunk{buf: make([]byte, size)}
		c.refs.Store(1)
		return c
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var c *chunk
	if n := len(a.chunks); n > 0 {
		c, a.chunks = a.chunks[n-1], a.chunks[:n-1]
	} else {
		c = &chunk{buf: make([]byte, chunkSize)}
	}
	c.charged = 0
	c.refs.Store(1)
	return c
}

func (a *arenas) release(c *chunk) {
	if c.refs.Add(-1) > 0 || len(c.buf) != chunkSize {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.chunks) < maxFree {
		a.chunks = append(a.chunks, c)
	}
}

// pooledBatch ties a batch to its chunk without a closure per batch.
type pooledBatch struct {
	cdc.Batch
	chunk *chunk
	own   []byte // the arena of rows that were copied out of a chunk; kept for reuse
	// committed are the transactions of Txs.
	committed []committed
}

// store decides where b's rows are kept, and charges b for that.
func (a *arenas) store(b *pooledBatch) {
	if b.chunk == nil {
		return // no rows
	}
	if b.Bytes >= leastInPlace {
		b.chunk.charged += b.Bytes
		return
	}
	b.copyOut()
	a.release(b.chunk)
	b.chunk = nil
	b.Bytes = cap(b.own) + cdc.BatchCost
}

// copyOut moves the values of b's rows into an arena of their own.
func (b *pooledBatch) copyOut() {
	if cap(b.own) < b.Bytes || cap(b.own) > 4*b.Bytes {
		b.own = make([]byte, 0, b.Bytes) // messages are larger than their values
	}
	b.own = b.own[:0]
	for i, s := range b.Spans {
		if s.Len < 0 {
			continue
		}
		b.Spans[i].Off = int32(len(b.own))
		b.own = append(b.own, b.Arena[s.Off:s.Off+s.Len]...)
	}
	b.Arena = b.own
}

// batch returns an empty batch over c, holding a reference to it.
func (a *arenas) batch(c *chunk, t *cdc.Table) *pooledBatch {
	b := a.blank()
	if c != nil {
		c.refs.Add(1)
		b.Arena = c.buf
	}
	b.chunk, b.Table = c, t
	b.Spans, b.Txs, b.Bytes = b.Spans[:0], b.Txs[:0], 0
	b.committed = b.committed[:0]
	return b
}

func (a *arenas) blank() *pooledBatch {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.batches); n > 0 {
		b := a.batches[n-1]
		a.batches = a.batches[:n-1]
		return b
	}
	b := new(pooledBatch)
	b.Free = func(*cdc.Batch) { a.free(b) }
	return b
}

func (a *arenas) free(b *pooledBatch) {
	if b.chunk != nil {
		a.release(b.chunk)
	}
	b.chunk, b.Arena, b.Table = nil, nil, nil
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.batches) < maxFree {
		a.batches = append(a.batches, b)
	}
}
