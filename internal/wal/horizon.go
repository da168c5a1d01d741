package wal

import (
	"slices"
	"strconv"
	"sync"

	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// maxHorizons limits how many are kept while the position stands still.
const maxHorizons = 512

// horizons keeps those that a position may pass. Safe for concurrent use: the looks add, the relay reads.
type horizons struct {
	mu   sync.Mutex
	list []postgres.Horizon // in order
	// next waits for another look that finds the publication unchanged: what a table misses while it is out of the publication must
	// not be below the horizon.
	next postgres.Horizon
}

// start forgets all but what a checkpoint says of its position: the server may be another one now.
func (h *horizons) start(c postgres.Horizon) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list, h.next = append(h.list[:0], c), postgres.Horizon{}
}

func (h *horizons) propose(next postgres.Horizon) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next = next
}

func (h *horizons) accept() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.list); h.next.XMin == 0 || n > 0 && h.next.XMin <= h.list[n-1].XMin { // at an earlier place it is worth more
		return
	}
	if len(h.list) == maxHorizons {
		for i := range maxHorizons / 2 {
			h.list[i] = h.list[2*i]
		}
		h.list = h.list[:maxHorizons/2]
	}
	h.list = append(h.list, h.next)
}

// before returns the last one that a position has passed, as text; "" for none.
func (h *horizons) before(position lsn) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, each := range slices.Backward(h.list) {
		if each.At <= position && each.XMin > 0 {
			return strconv.FormatUint(each.XMin, 10)
		}
	}
	return ""
}

// forget drops those before the last one that a position has passed.
func (h *horizons) forget(position lsn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	passed := 0
	for passed+1 < len(h.list) && h.list[passed+1].At <= position {
		passed++
	}
	h.list = slices.Delete(h.list, 0, passed)
}
