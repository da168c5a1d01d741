package relay

import (
	"context"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Source tails a database's log.
type Source interface {
	// Acquire takes what makes this relay the leader (a slot, a lease), then asks load for the
	// checkpoint (false: there is none) and decides where to go on. Nothing is read yet. An error that
	// wraps cdc.ErrStandby means somebody else leads.
	Acquire(ctx context.Context, load cdc.Loader) (cdc.Source, cdc.Position, error)
	// Release gives back what Acquire took when Run does not follow; otherwise it does nothing.
	Release(ctx context.Context)
	// Run is one attempt at streaming into q, after a successful Acquire. It blocks until ctx ends
	// (then it returns nil, having told the database the last confirmed position) or the attempt fails.
	Run(ctx context.Context, q cdc.Queue) error
	// Progress renders how far the log is safe once every batch up to seq is durable.
	Progress(seq uint64) cdc.Progress
	// Confirm says that everything up to seq is durable and saved. It never blocks.
	Confirm(seq uint64)
}

// Lagging is a [Source] that knows how far behind it reads, also while nothing of ours comes.
type Lagging interface {
	// Lag is how old the transaction that was received last was when it came, whatever table it wrote to; 0 at the
	// end of the log. It never blocks.
	Lag() time.Duration
}

// Router turns rows into messages. It is pure.
type Router interface {
	// Route fills dst, which was reset to b. An error means stop: nothing of b is published.
	Route(b *cdc.Batch, dst *cdc.Routed) error
}

// Sink publishes messages in order.
type Sink interface {
	// Open connects and checks; called once, before Send, by a leader. fence names what it leads: whatever
	// another sink was opened with the same one before may still have on its way must not come later.
	Open(ctx context.Context, fence string) error
	// Send takes r, which stays untouched until its Durable came. It may block for back-pressure.
	Send(ctx context.Context, r *cdc.Routed) error
	// Durable answers for each Send once, in any order. The first error is final.
	Durable() <-chan cdc.Durable
	// Kill ends it: no byte leaves after it returns.
	Kill()
}

// Checkpointer keeps the position.
type Checkpointer interface {
	// Load returns the last checkpoint, and false where there is none: it has a Generation then only if there was
	// one that was reset.
	Load(ctx context.Context) (cdc.Checkpoint, bool, error)
	// Save stores c unless a newer generation owns the checkpoint: then the error wraps cdc.ErrFenced.
	Save(ctx context.Context, c cdc.Checkpoint) error
}
