package wal

import (
	"cmp"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// lsn is a byte offset in the WAL; 0 is none.
type lsn = postgres.LSN

// mark says which position is safe once a batch is durable.
type mark struct {
	seq     uint64
	resume  lsn
	lastEnd lsn // of the last transaction with outbox rows
	lastXID uint32
	part    part   // the transaction that is open at the end of the batch
	xmin    uint64 // each transaction with a lower ID has ended before resume; 0: not known
}

// maxMarks limits how many are kept of batches whose progress was asked for, while none is confirmed: the checkpoint store may be away.
const maxMarks = 4096

// positionIndex keeps the positions of batches handed on and not confirmed yet, in order of seq.
// Safe for concurrent use: the owner adds, the relay reads.
type positionIndex struct {
	mu    sync.Mutex
	list  []mark
	head  int
	asked uint64 // see progressed
}

func (m *positionIndex) add(k mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.head > 1024 && m.head > len(m.list)/2 {
		m.list = append(m.list[:0], m.list[m.head:]...)
		m.head = 0
	}
	m.thin()
	m.list = append(m.list, k)
}

// thin drops every second one of those that are behind what was asked for. Without them a position is only older than it could be. What
// may be asked for next is exact, because exactly-once delivery repeats what is behind its position.
func (m *positionIndex) thin() {
	if len(m.list)-m.head < maxMarks {
		return
	}
	live := m.list[m.head:]
	if behind := m.upto(m.asked) - m.head - 1; behind >= maxMarks/2 {
		kept := m.list[:0]
		for i := 0; i < behind; i += 2 {
			kept = append(kept, live[i])
		}
		kept = append(kept, live[behind:]...)
		m.list, m.head = kept, 0
	}
}

// progressed is at, for a seq that is durable: no earlier one is asked for from now on.
func (m *positionIndex) progressed(seq uint64) (mark, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = max(m.asked, seq)
	return m.find(seq)
}

func (m *positionIndex) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list, m.head, m.asked = nil, 0, 0
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
	end := m.upto(seq)
	if end == m.head {
		return mark{}, false
	}
	return m.list[end-1], true
}

// upto returns where those with a seq of at most seq end.
func (m *positionIndex) upto(seq uint64) int {
	return m.head + sort.Search(len(m.list)-m.head, func(i int) bool { return m.list[m.head+i].seq > seq })
}

func (k mark) progress() cdc.Progress {
	p := cdc.Progress{Position: postgres.FormatLSN(k.resume), Commit: postgres.FormatLSN(k.lastEnd)}
	if k.lastXID != 0 {
		p.TxID = strconv.FormatUint(uint64(k.lastXID), 10)
	}
	if k.xmin != 0 {
		p.XMin = strconv.FormatUint(k.xmin, 10)
	}
	if k.part.rows > 0 {
		p.Part = cdc.Part{TxID: k.part.String(), Rows: k.part.rows}
	}
	return p
}

// String is "LSN/xid".
func (p part) String() string { return fmt.Sprintf("%s/%d", postgres.FormatLSN(p.commit), p.xid) }

// handedOnBefore is what the checkpoint of an earlier run says about the rows of a transaction at its position.
func handedOnBefore(c cdc.Checkpoint, tables []string) (handedOn, error) {
	stored := c.Progress.Part
	if stored.Rows == 0 {
		return handedOn{}, nil
	}
	if err := stored.SameTables(cdc.CountedTables(tables)); err != nil {
		return handedOn{}, err
	}
	at := handedOn{part: part{rows: stored.Rows}}
	commit, xid, _ := strings.Cut(stored.TxID, "/")
	var bad [3]error
	at.end, bad[0] = postgres.ParseLSN(c.Progress.Position)
	at.commit, bad[1] = postgres.ParseLSN(cdc.Position(commit))
	_, bad[2] = fmt.Sscan(xid, &at.xid)
	if err := cmp.Or(bad[:]...); err != nil {
		return handedOn{}, badCheckpoint(err)
	}
	return at, nil
}

func badCheckpoint(err error) error {
	return cdc.PositionError("bad_checkpoint", "drop it with `cdc-relay position reset`", "checkpoint cannot be used: %w", err)
}
