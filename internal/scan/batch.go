package scan

import (
	"cmp"
	"context"
	"errors"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

const (
	// readBytes is the size at which a batch ends.
	readBytes = 256 << 10
	// pieceBytes is what one statement may read into memory.
	pieceBytes = 4 << 20
	// firstPiece is how many rows are read while nothing is known of their size.
	firstPiece = 50
)

// Batches makes batches of the rows of a table, one at a time.
type Batches struct {
	// At is the column with the time, -1 if there is none; Cost what a batch costs beside its arena.
	At, Cost int
	// Zone is where the clocks were that wrote the time, if it has no zone; nil: UTC.
	Zone     *cdc.Zone
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
	return stamp(b, s.At, s.Zone)
}

// ErrAgain says that a statement is to be run again.
var ErrAgain = errors.New("run the statement again")

// Refresh reads what was taken out of a table, and reports whether that has changed.
type Refresh func(context.Context) (changed bool, err error)

// Again makes err [ErrAgain] if it says that a table that was taken out is gone, and that is so.
func Again(ctx context.Context, refresh Refresh, err error) error {
	if !errors.Is(err, ErrGone) {
		return err
	}
	if changed, failed := refresh(ctx); failed != nil || changed {
		return cmp.Or(failed, ErrAgain)
	}
	return err
}

// Whole runs a query on a table and on what was taken out of it, and runs it again if that has changed before the query had its lock:
// the rows of another table that was taken out were in neither.
func Whole(ctx context.Context, refresh Refresh, query func() error) error {
	_, err := refresh(ctx)
	for changed := true; err == nil && changed; {
		if err = query(); err == nil {
			changed, err = refresh(ctx)
		} else if errors.Is(err, ErrAgain) {
			err = nil
		}
	}
	return err
}

// errLarge says that the rows of a piece do not fit into memory.
var errLarge = errors.New("more rows than fit into memory")

// Read reads the rows of a page in pieces, each by one statement, and yields them when the statement has ended: it holds a lock on
// the table, and a DDL statement that waits for that holds up writers, whatever yield waits for. read returns how many of the piece's
// keys it has found. If there are fewer, and changed says that a table was taken out since the keys were read, it reads them again.
func (s *Batches) Read(p Page, read func(piece Page, keep func(*cdc.Batch) error) (found int, err error), changed func() (bool, error), yield func(*cdc.Batch) error) error {
	for rest := p.Keys; len(rest) > 0; rest = rest[len(p.Keys):] {
		p.Keys = rest[:min(len(rest), s.fitting())]
		var batches []*cdc.Batch
		for again := true; again; {
			batches, again = nil, false
			bytes := 0
			found, err := read(p, func(b *cdc.Batch) error {
				if bytes += len(b.Arena); bytes > pieceBytes && len(p.Keys) > 1 {
					return errLarge
				}
				batches = append(batches, b)
				return nil
			})
			switch {
			case errors.Is(err, errLarge), errors.Is(err, ErrUnreadable) && len(p.Keys) > 1:
				p.Keys, again = p.Keys[:len(p.Keys)/2], true
			case errors.Is(err, ErrAgain):
				again = true
			case err != nil:
				return err
			case found < len(p.Keys):
				if again, err = changed(); err != nil {
					return err
				}
			}
		}
		for _, b := range batches {
			if err := yield(b); err != nil {
				return err
			}
		}
	}
	return nil
}

// fitting is how many rows of the last size make half a piece.
func (s *Batches) fitting() int {
	if s.rowBytes == 0 {
		return firstPiece
	}
	return max(1, pieceBytes/2/s.rowBytes)
}
