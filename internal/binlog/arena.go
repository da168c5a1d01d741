package binlog

import (
	"sync"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
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
	free []*batch
}

// batch is a batch with the GTIDs of its transactions.
type batch struct {
	cdc.Batch

	ids []mysql.GTID // of Txs
}

// take returns an empty batch.
func (p *batches) take(t *cdc.Table) *batch {
	b := p.blank()
	b.Table, b.Arena, b.Spans, b.Txs, b.Bytes, b.Open, b.ids = t, b.Arena[:0], b.Spans[:0], b.Txs[:0], 0, false, b.ids[:0]
	return b
}

func (p *batches) blank() *batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		b := p.free[n-1]
		p.free = p.free[:n-1]
		return b
	}
	b := &batch{}
	b.Free = func(*cdc.Batch) { p.give(b) }
	b.TxName = func(i int) string { return b.ids[i].String() }
	return b
}

func (p *batches) give(b *batch) {
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
