package binlog

import (
	"sync"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// maxFree bounds the batches kept for reuse, and maxKept the arena of one: a huge row must not stay in memory.
// Not a sync.Pool: that one empties with every garbage collection.
const (
	maxFree = 128
	maxKept = 2 * batchBytes
)

// batches recycles batches. Safe for concurrent use: they are released by the relay.
type batches struct {
	mu   sync.Mutex
	free []*cdc.Batch
}

// take returns an empty batch.
func (p *batches) take(t *cdc.Table) *cdc.Batch {
	b := p.blank()
	b.Table, b.Arena, b.Spans, b.Txs, b.Bytes, b.Open = t, b.Arena[:0], b.Spans[:0], b.Txs[:0], 0, false
	return b
}

func (p *batches) blank() *cdc.Batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		b := p.free[n-1]
		p.free = p.free[:n-1]
		return b
	}
	return &cdc.Batch{Free: p.give}
}

func (p *batches) give(b *cdc.Batch) {
	b.Table = nil
	if cap(b.Arena) > maxKept {
		b.Arena = nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) < maxFree {
		p.free = append(p.free, b)
	}
}
