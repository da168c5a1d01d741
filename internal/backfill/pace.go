package backfill

import (
	"context"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// pace spreads events evenly over time.
type pace struct {
	rate  int
	since time.Time
	sent  int
}

// most is the size of a piece: that of a millisecond, so that a live stream does not wait behind bursts; 0: no limit.
func (p *pace) most() int {
	if p.rate == 0 {
		return 0
	}
	return max(1, p.rate/1000)
}

// wait returns once n more events are due.
func (p *pace) wait(ctx context.Context, n int) error {
	if p.rate == 0 {
		return nil
	}
	due := p.since.Add(time.Duration(float64(p.sent) / float64(p.rate) * float64(time.Second)))
	p.sent += n
	if now := time.Now(); now.Sub(due) > time.Second { // Kafka was slow: what was missed is not made up for
		p.since, p.sent = now, n
		return ctx.Err()
	}
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pieces cuts a batch into batches of at most n rows; 0: no limit.
func pieces(b *cdc.Batch, n int) []*cdc.Batch {
	rows, width := b.Rows(), len(b.Table.Columns)
	if n == 0 || rows <= n {
		return []*cdc.Batch{b}
	}
	var list []*cdc.Batch
	for from := 0; from < rows; from += n {
		to := min(from+n, rows)
		piece := &cdc.Batch{Table: b.Table, Arena: b.Arena, Spans: b.Spans[from*width : to*width], Txs: b.Txs[from:to:to]}
		for i := range piece.Txs {
			piece.Txs[i].Row -= from
		}
		list = append(list, piece)
	}
	return list
}
