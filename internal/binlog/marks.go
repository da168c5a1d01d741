package binlog

import (
	"sync"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// mark says which transactions are safe once a batch is durable.
type mark struct {
	seq uint64
	// upto counts the transactions added before; see marks.added.
	upto uint64
	// commit is the last of them with rows of ours.
	commit gtid
}

// marks keeps the transactions that are not in a saved position yet, as a list of GTIDs: folding them into a
// set for every commit would be too dear, so that is done when a position is asked for.
// Safe for concurrent use: the owner adds, the relay reads.
type marks struct {
	flavor Flavor

	mu    sync.Mutex
	base  gtidSet // what was folded
	done  uint64  // how many that were
	added []gtid  // those after them, in order
	list  []mark
	head  int
}

// start begins at a position. It is called before the first mark, and not again.
func (m *marks) start(f Flavor, from gtidSet, commit gtid) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.flavor, m.base = f, from.clone()
	m.list = append(m.list, mark{commit: commit})
}

// text names a transaction as its server prints it.
func (m *marks) text(g gtid) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return g.text(m.flavor)
}

// seen adds a transaction that was handed on whole.
func (m *marks) seen(g gtid) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.added = append(m.added, g)
}

// news says whether transactions were added since the last mark.
func (m *marks) news() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.list[len(m.list)-1].upto < m.done+uint64(len(m.added))
}

// set marks the batch seq: what was added so far is safe with it.
func (m *marks) set(seq uint64, commit gtid) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.head > 1024 && m.head > len(m.list)/2 {
		m.list = append(m.list[:0], m.list[m.head:]...)
		m.head = 0
	}
	m.list = append(m.list, mark{seq: seq, upto: m.done + uint64(len(m.added)), commit: commit})
}

// progress folds what is safe now that seq is durable, and forgets it.
func (m *marks) progress(seq uint64) (cdc.Progress, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.base == nil {
		return cdc.Progress{}, false
	}
	for m.head+1 < len(m.list) && m.list[m.head+1].seq <= seq {
		m.head++
	}
	k := m.list[m.head]
	n := int(k.upto - m.done)
	for _, g := range m.added[:n] {
		m.base.add(g)
	}
	m.done = k.upto
	m.added = append(m.added[:0], m.added[n:]...)
	return cdc.Progress{Position: cdc.Position(m.base.String()), TxID: k.commit.text(m.flavor)}, true
}
