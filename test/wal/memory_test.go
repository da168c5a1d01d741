package wal

import (
	"runtime"
	"sync"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// hoard keeps every batch, as the relay's window does while Kafka is away.
type hoard struct {
	cdc.Queue

	mu      sync.Mutex
	batches []*cdc.Batch
	bytes   int
	q       *queue // counts
}

func (h *hoard) Offer(b *cdc.Batch) bool {
	h.mu.Lock()
	h.batches = append(h.batches, b)
	h.bytes += b.Bytes
	h.mu.Unlock()
	release := b.Free
	b.Free = nil
	defer func() { b.Free = release }()
	return h.q.Offer(b)
}

func (h *hoard) Space() <-chan struct{} { return h.q.Space() }

func (h *hoard) charged() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes
}

// If the publication has a thousand rows of another table for each event and Kafka is away, the events hold no more memory
// than they are charged for.
func TestMemoryWithBusyOtherTable(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE noise (x text)")
	d.exec("ALTER PUBLICATION " + d.name + " ADD TABLE noise")
	h := &hoard{q: newQueue(t)}
	const events = 200
	s := d.source()
	before := heapAlloc()
	tailing(t, s, h)
	for i := range events {
		d.exec("BEGIN")
		d.exec("INSERT INTO noise SELECT repeat('x', 250) FROM generate_series(1, 1000)")
		d.insert(i+1, i+1)
		d.exec("COMMIT")
	}
	h.q.waitCount(t, events)
	held, charged := heapAlloc()-before, h.charged()
	t.Logf("%d events are charged %d bytes and hold %d", events, charged, held)
	if most := charged + 4<<20; held > most {
		t.Errorf("%d bytes are held, want at most %d: %d events are charged %d", held, most, events, charged)
	}
	runtime.KeepAlive(h)
}

func heapAlloc() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
