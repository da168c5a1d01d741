package writer

import "context"

type Row = row

// Prepare returns the rows of events.
func (w *Writer) Prepare(ctx context.Context, events ...*Event) ([]Row, error) {
	rows, _, err := w.prepare(ctx, nil, events)
	return rows, err
}

// InsertError describes an error of an INSERT.
func (w *Writer) InsertError(rows int, err error) error { return w.insertError(rows, err) }

// FlushTo flushes without a transaction.
func (u *Unit) FlushTo(write func(events ...*Event) error) error { return u.flush(write) }
