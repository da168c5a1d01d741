package relay

import (
	"context"
	"log/slog"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// route passes batches in order through the router to the sink.
func (a *attempt) route(ctx context.Context) {
	for {
		b := a.window.take()
		if b == nil {
			select {
			case <-a.window.work:
				continue
			case <-ctx.Done():
				return
			}
		}
		if err := a.publish(ctx, b); err != nil {
			if ctx.Err() == nil {
				a.fail(err)
			}
			return
		}
	}
}

func (a *attempt) publish(ctx context.Context, b *cdc.Batch) error {
	routed := a.newRouted()
	routed.Reset(b)
	if err := a.Router.Route(b, routed); err != nil {
		return err
	}
	if routed.LeftOut > 0 {
		a.opts.LeftOut(b.Table.String(), routed.LeftOut)
	}
	for _, d := range routed.Drops {
		a.opts.Dropped(d.Reason)
		attrs := []any{
			cdc.Repeats(), slog.String("table", b.Table.String()), cdc.EventAttr(d.EventID, d.Key, d.Topic), slog.String("reason", d.Reason),
		}
		if d.Err != nil {
			attrs = append(attrs, slog.Any("error", d.Err))
		}
		a.log.Warn("event not published, as configured", attrs...)
	}
	a.window.setRouted(routed) // before Send: the answer may come before it returns
	return a.Sink.Send(ctx, routed)
}

// acknowledge takes the sink's answers and completes their batches in the window.
func (a *attempt) acknowledge(ctx context.Context) {
	var done []*cdc.Routed
	for {
		select {
		case d := <-a.Sink.Durable():
			if d.Err != nil {
				a.sinkFailed.Store(true)
				a.fail(d.Err)
				return
			}
			done = a.window.complete(d.First, d.Last, done[:0])
			for _, routed := range done {
				a.recycle(routed)
			}
			clear(done)
			if d.Cut {
				signal(a.cut)
			}
		case <-ctx.Done():
			return
		}
	}
}

const (
	// maxSpare is how many Routeds are kept for reuse.
	maxSpare = 64
	// maxScratch is the largest scratch that is kept: one huge row must not stay in memory for ever.
	maxScratch = 1 << 20
)

// newRouted returns a Routed to fill, a used one if there is one.
func (a *attempt) newRouted() *cdc.Routed {
	select {
	case routed := <-a.spare:
		return routed
	default:
		return new(cdc.Routed)
	}
}

// recycle gives the batch back to its source and keeps routed for reuse.
func (a *attempt) recycle(routed *cdc.Routed) {
	routed.Batch.Release()
	routed.Batch = nil
	if cap(routed.Scratch) > maxScratch {
		return
	}
	select {
	case a.spare <- routed:
	default:
	}
}
