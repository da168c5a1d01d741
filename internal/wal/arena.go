package wal

import (
	"sync"
	"sync/atomic"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// chunkSize is how much one read may take from the socket. Rows stay where they were read: a chunk is
// the arena of the batches decoded from it, and is read into again when the last of them is released.
const chunkSize = 256 << 10

// maxFree bounds the chunks, and the batches, kept for reuse. Not in a sync.Pool: that one empties with
// every garbage collection.
const maxFree = 64

type chunk struct {
	buf  []byte
	refs atomic.Int32 // the reader holds one, each batch one
}

// arenas recycles chunks and batches. Safe for concurrent use: batches are released by the relay.
type arenas struct {
	mu      sync.Mutex
	chunks  []*chunk
	batches []*pooledBatch
}

// take returns a chunk of at least size octets with one reference.
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
