package wal

import (
	"fmt"
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
	xmin    uint64 // only in what a checkpoint says; see horizons
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

func (m *positionIndex) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list, m.head = nil, 0
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
	p := cdc.Progress{Position: postgres.FormatLSN(k.resume), Commit: postgres.FormatLSN(k.lastEnd)}
	if k.lastXID != 0 {
		p.TxID = strconv.FormatUint(uint64(k.lastXID), 10)
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
	var err error
	if at.end, err = postgres.ParseLSN(c.Progress.Position); err == nil {
		at.commit, err = postgres.ParseLSN(cdc.Position(commit))
	}
	if err == nil {
		_, err = fmt.Sscan(xid, &at.xid)
	}
	if err != nil {
		return handedOn{}, cdc.PositionError("bad_checkpoint", fixCheckpoint, "checkpoint cannot be used: %w", err)
	}
	return at, nil
}

const fixCheckpoint = "drop it with `cdc-relay position reset`"
