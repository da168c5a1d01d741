package scan

import "github.com/cdc-relay/cdc-relay/internal/cdc"

// readBytes is the size at which a batch ends.
const readBytes = 256 << 10

// Batches makes batches of the rows of a table, one at a time.
type Batches struct {
	// At is the column with the time, Cost what a batch costs beside its arena.
	At, Cost int
	rowBytes int // of the rows so far, on average
}

// New returns a batch with room for that many rows, as far as they go into one.
func (s *Batches) New(t *cdc.Table, rows int) *cdc.Batch {
	if s.rowBytes == 0 {
		return &cdc.Batch{Table: t}
	}
	rows = min(rows, readBytes/s.rowBytes+1)
	return &cdc.Batch{
		Table: t, Arena: make([]byte, 0, rows*(s.rowBytes+s.rowBytes/8)),
		Spans: make([]cdc.Span, 0, rows*len(t.Columns)), Txs: make([]cdc.Tx, 0, rows),
	}
}

// Full reports whether a batch takes no more rows.
func (s *Batches) Full(b *cdc.Batch) bool { return len(b.Arena) >= readBytes }

// Complete makes each row a transaction.
func (s *Batches) Complete(b *cdc.Batch) error {
	s.rowBytes = max(1, len(b.Arena)/b.Rows())
	b.Bytes = cap(b.Arena) + s.Cost
	return stamp(b, s.At)
}
