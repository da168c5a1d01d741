package wal

import (
	"strconv"
	"sync"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// mark says which position is safe once a batch is durable.
type mark struct {
	seq    uint64
	resume lsn
	commit lsn // end of the last transaction with rows of ours
	xid    uint32
}

// positionIndex keeps the positions of batches handed on and not confirmed yet, in order of seq.
// Safe for concurrent use: the owner adds, the relay reads.
type positionIndex struct {
	mu   sync.Mutex
	list []mark
	head int
}

func (m *positionIndex) add(k mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.head > 1024 && m.head > len(m.list)/2 {
		m.list = append(m.list[:0], m.list[m.head:]...)
		m.head = 0
	}
	m.list = append(m.list, k)
}

// at returns the last mark with a seq of at most seq.
func (m *positionIndex) at(seq uint64) (mark, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.find(seq)
}

// trim forgets what stands before the last mark with a seq of at most seq, and returns that mark.
func (m *positionIndex) trim(seq uint64) (mark, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.find(seq)
	for ok && m.list[m.head].seq < k.seq {
		m.head++
	}
	return k, ok
}

func (m *positionIndex) find(seq uint64) (mark, bool) {
	lo, hi := m.head, len(m.list)
	for lo < hi {
		if mid := (lo + hi) / 2; m.list[mid].seq <= seq {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == m.head {
		return mark{}, false
	}
	return m.list[lo-1], true
}

func (k mark) progress() cdc.Progress {
	p := cdc.Progress{Position: formatPosition(k.resume), Commit: formatPosition(k.commit)}
	if k.xid != 0 {
		p.TxID = strconv.FormatUint(uint64(k.xid), 10)
	}
	return p
}
