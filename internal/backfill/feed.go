package backfill

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// feed hands batches to the relay. The last one has no rows: once its position is saved, everything before it is published.
type feed struct {
	handed atomic.Uint64 // seq of the last batch handed on
	end    atomic.Uint64 // seq of the last batch of all; 0: not yet
	saved  chan struct{} // capacity 1: its position is saved
	done   chan struct{} // closed when everything is done
}

func newFeed() feed { return feed{saved: make(chan struct{}, 1), done: make(chan struct{})} }

// Done is closed when every row is published, and the position behind them is saved.
func (f *feed) Done() <-chan struct{} { return f.done }

// ended reports whether the batches up to seq are all that there are.
func (f *feed) ended(seq uint64) bool {
	end := f.end.Load()
	return end > 0 && seq >= end
}

// Confirm implements relay.Source.
func (f *feed) Confirm(seq uint64) {
	if f.ended(seq) {
		select {
		case f.saved <- struct{}{}:
		default:
		}
	}
}

// rewind forgets the end.
func (f *feed) rewind() {
	f.end.Store(0)
	select {
	case <-f.saved:
	default:
	}
}

// hand passes a batch on, waiting for room. It belongs to the relay then.
func (f *feed) hand(ctx context.Context, q cdc.Queue, b *cdc.Batch) error {
	b.Seq = f.handed.Load() + 1
	for !q.Offer(b) {
		select {
		case <-q.Space():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	f.handed.Store(b.Seq)
	return nil
}

// finish hands on the last batch, and waits until its position is saved.
func (f *feed) finish(ctx context.Context, q cdc.Queue) error {
	f.end.Store(f.handed.Load() + 1) // before the offer: the batch may be durable before Offer returns
	if err := f.hand(ctx, q, new(cdc.Batch)); err != nil {
		return err
	}
	select {
	case <-f.saved:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave ends Run with what publishing has returned. The relay would read the table again after an error that a retry may fix, or that is of
// the configuration: early makes it final.
func (f *feed) leave(ctx context.Context, err error, early func(error) error) error {
	if err == nil {
		close(f.done)
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // err says no more
	}
	if stop, ok := errors.AsType[*cdc.StopError](err); ok && stop.Class != cdc.ClassConfig {
		return err
	}
	return early(err)
}
