package binlog

import (
	"sync"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

// mark says which transactions are safe once a batch is durable.
type mark struct {
	seq uint64
	// upto counts the runs added before; see positionIndex.added.
	upto uint64
	// commit is the last of them with rows of ours.
	commit mysql.GTID
	// stamp is the last of them that has one.
	stamp stamp
	// hint is where the stamp's transaction stands.
	hint hint
	// part is the transaction that is open at the end of the batch.
	part part
	// replaced is [cdc.Progress.Replaced].
	replaced string
}

// part is a transaction of which only the first rows were handed on. The zero value is none.
type part struct {
	tx   string // its GTID
	rows uint32
}

// positionIndex keeps the transactions that are not in a saved position yet, as runs of GTIDs. They are folded into a set when a
// position is asked for; for every commit that would cost too much. Its memory grows with the batches that are not saved
// and with the gaps between GTIDs, also those that a later GTID fills, not with the transactions of other tables.
// Safe for concurrent use: the owner adds, the relay reads.
type positionIndex struct {
	mu    sync.Mutex
	base  mysql.Set // what was folded
	done  uint64    // how many runs that were
	added []run     // those after them; runs behind the last mark may still grow
	list  []mark
	head  int
}

// start begins at a position, which is safe with the mark's batch. It is called before the first mark, and again only after
// a reset.
func (m *positionIndex) start(from mysql.Set, k mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.base = from.Clone()
	m.list = append(m.list, k)
}

func (m *positionIndex) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.base, m.done, m.added, m.list, m.head = nil, 0, nil, nil, 0
}

// seen adds a transaction that was handed on whole.
func (m *positionIndex) seen(g mysql.GTID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	open := m.added[m.marked():]
	for i := len(open) - 1; i >= max(0, len(open)-lookBack); i-- {
		if open[i].extend(g) {
			return
		}
	}
	m.added = append(m.added, run{g, g.Number})
}

// lookBack is how many runs are tried for a new GTID: several servers or domains commit in turn.
const lookBack = 32

// marked is how many of the runs in added are before the last mark.
func (m *positionIndex) marked() int { return int(m.list[len(m.list)-1].upto - m.done) }

// news says whether transactions were added since the last mark.
func (m *positionIndex) news() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.marked() < len(m.added)
}

// set marks a batch: what was added so far is safe with it.
func (m *positionIndex) set(k mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.head > 1024 && m.head > len(m.list)/2 {
		m.list = append(m.list[:0], m.list[m.head:]...)
		m.head = 0
	}
	k.upto = m.done + uint64(len(m.added))
	m.list = append(m.list, k)
}

// progress folds what is safe now that seq is durable, and forgets it.
func (m *positionIndex) progress(seq uint64) (cdc.Progress, bool) {
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
	for _, r := range m.added[:n] {
		m.base.AddRun(r.first, r.GTID)
	}
	m.done = k.upto
	m.added = append(m.added[:0], m.added[n:]...)
	return cdc.Progress{
		Position: cdc.Position(m.base.String()), Commit: k.stamp.text(), Hint: k.hint.text(), TxID: k.commit.String(), Part: cdc.Part{TxID: k.part.tx, Rows: k.part.rows}, Replaced: k.replaced,
	}, true
}

// run is GTIDs of one origin without a gap, up to and with GTID. On MariaDB, where a position is the last GTID of each
// domain, it is all of a domain.
type run struct {
	mysql.GTID

	first uint64
}

// extend adds g where it follows.
func (r *run) extend(g mysql.GTID) bool {
	switch {
	case g.OnMariaDB() && r.Domain == g.Domain:
		r.GTID = g
	case !g.OnMariaDB() && r.Number+1 == g.Number && r.SID == g.SID && r.Tag == g.Tag:
		r.Number = g.Number
	default:
		return false
	}
	return true
}
