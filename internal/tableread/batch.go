package tableread

import (
	"context"
	"errors"
	"fmt"

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
	// Key is the column with the event's ID, At that with the time, -1 if there is none; Cost what a batch costs beside its arena.
	Key, At, Cost int
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

// Complete makes each row a transaction.
func (s *Batches) Complete(b *cdc.Batch) error {
	s.rowBytes = max(1, len(b.Arena)/b.Rows())
	b.Bytes = cap(b.Arena) + s.Cost
	return stamp(b, s.At, s.Key, s.Zone)
}

// errLarge says that the rows of a piece do not fit into memory.
var errLarge = errors.New("more rows than fit into memory")

// Rows reads the rows of a page in pieces, each by one statement, and yields them when the statement has ended: it holds a lock on
// the table, and a DDL statement that waits for that holds up writers, whatever yield waits for. If a statement has not found all keys,
// and a table was taken out since the keys were read, they are read again.
func (r *Reader) Rows(ctx context.Context, f Filter, p Page, yield func(*cdc.Batch) error) error {
	for rest := p.Keys; len(rest) > 0; rest = rest[len(p.Keys):] {
		p.Keys = rest[:min(len(rest), r.Batches.fitting())]
		var batches []*cdc.Batch
		for again := true; again; {
			again = false
			found := 0
			err := r.reading(ctx, func() (err error) {
				batches, found, err = r.piece(ctx, f, p)
				return err
			})
			switch {
			case errors.Is(err, errLarge), errors.Is(err, ErrUnreadable) && len(p.Keys) > 1:
				p.Keys, again = p.Keys[:len(p.Keys)/2], true
			case errors.Is(err, ErrAgain):
				again = true
			case err != nil:
				return err
			case found < len(p.Keys):
				if again, err = r.Refresh(ctx); err != nil {
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

// piece reads the rows of a page by one statement, and returns how many of the keys it has found.
func (r *Reader) piece(ctx context.Context, f Filter, p Page) (batches []*cdc.Batch, found int, err error) {
	by := r.order(&f)
	from, c := r.from(p.Window, func(c *Conditions, has []string) {
		r.within(c, by, p)
		r.where(c, Filter{Matches: f.Matches, Where: f.Where}, Window{}, has)
	}, func(has []string) string { return r.columns(by, has) })
	at, id := by.SQL, r.Key.SQL
	if r.Dialect.Beside {
		at, id = "row_at", "row_id"
	}
	if p.Ascending {
		at, id = id, at // that of the index
	}
	bytes, b := 0, r.Batches.New(r.Table, len(p.Keys))
	complete := func() error {
		if err := r.Batches.Complete(b); err != nil {
			return err
		}
		if bytes += len(b.Arena); bytes > pieceBytes && len(p.Keys) > 1 {
			return errLarge
		}
		batches = append(batches, b)
		b = r.Batches.New(r.Table, len(p.Keys)-found)
		return nil
	}
	var text []byte
	err = r.query(ctx, "SELECT * FROM "+from+" ORDER BY "+at+", "+id, c, &p, func(values [][]byte) error {
		var err error
		if text, err = r.Driver.AppendKey(text[:0], values[r.Key.Index]); err == nil && found < len(p.Keys) && string(text) == p.Keys[found].ID {
			found++
		}
		if err := r.appendRow(b, values); err != nil {
			return err
		}
		if len(b.Arena) < readBytes {
			return nil
		}
		return complete()
	})
	if err == nil && b.Rows() > 0 {
		err = complete()
	}
	return batches, found, err
}

func (r *Reader) appendRow(b *cdc.Batch, values [][]byte) (err error) {
	for i := range r.Table.Columns {
		if values[i] == nil {
			b.Spans = append(b.Spans, cdc.Span{Len: -1})
			continue
		}
		start := len(b.Arena)
		if b.Arena, err = r.Driver.AppendCell(b.Arena, i, values[i]); err != nil {
			return fmt.Errorf("read column %s of %s: %w", r.Table.Columns[i].Name, r.Table, err)
		}
		b.Spans = append(b.Spans, cdc.Span{Off: int32(start), Len: int32(len(b.Arena) - start)})
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
