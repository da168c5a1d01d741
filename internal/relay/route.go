package relay

import (
	"context"
	"log/slog"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// route passes batches in order through the router to the sink.
func (r *Relay) route(ctx context.Context) {
	for {
		b := r.window.take()
		if b == nil {
			select {
			case <-r.window.work:
				continue
			case <-ctx.Done():
				return
			}
		}
		if err := r.publish(ctx, b); err != nil {
			if ctx.Err() == nil {
				r.fail(err)
			}
			return
		}
	}
}

func (r *Relay) publish(ctx context.Context, b *cdc.Batch) error {
	routed := r.newRouted()
	routed.Reset(b)
	if err := r.Router.Route(b, routed); err != nil {
		return err
	}
	for _, d := range routed.Drops {
		r.opts.Dropped(d.Reason)
		attrs := []any{
			cdc.Repeats(), slog.String("table", b.Table.String()), cdc.EventAttr(d.EventID, d.Key, d.Topic), slog.String("reason", d.Reason),
		}
		if d.Err != nil {
			attrs = append(attrs, slog.Any("error", d.Err))
		}
		r.log.Warn("event not published, as configured", attrs...)
	}
	r.window.setRouted(routed) // before Send: the answer may come before it returns
	return r.Sink.Send(ctx, routed)
}

// acknowledge takes the sink's answers and completes their batches in the window.
func (r *Relay) acknowledge(ctx context.Context) {
	var done []*cdc.Routed
	for {
		select {
		case d := <-r.Sink.Durable():
			if d.Err != nil {
				r.sinkFailed.Store(true)
				r.fail(d.Err)
				return
			}
			done = r.window.complete(d.First, d.Last, done[:0])
			for _, routed := range done {
				r.recycle(routed)
			}
			clear(done)
			if d.Cut {
				signal(r.cut)
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
func (r *Relay) newRouted() *cdc.Routed {
	select {
	case routed := <-r.spare:
		return routed
	default:
		return new(cdc.Routed)
	}
}

// recycle gives the batch back to its source and keeps routed for reuse.
func (r *Relay) recycle(routed *cdc.Routed) {
	routed.Batch.Release()
	routed.Batch = nil
	if cap(routed.Scratch) > maxScratch {
		return
	}
	select {
	case r.spare <- routed:
	default:
	}
}
