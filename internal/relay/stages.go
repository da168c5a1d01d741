package relay

import (
	"context"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Source reads a database's WAL or binlog.
type Source interface {
	// Acquire takes the slot or lock that makes this relay the leader, then loads the checkpoint (false: there is
	// none) and decides where to continue. No row is handed on yet. An error that wraps cdc.ErrStandby means that another
	// relay leads; Acquire has waited for its end for a while.
	Acquire(ctx context.Context, load cdc.Resumer) (cdc.Source, cdc.Position, error)
	// Release gives back what Acquire took, so that another relay can lead, and forgets what was streamed: after the next
	// Acquire, Run streams from the position that this returned. Run must have ended.
	Release(ctx context.Context)
	// Run streams into q after a successful Acquire. It blocks until ctx ends or the connection fails. When ctx ends it
	// reports the last confirmed position to the database and returns nil.
	Run(ctx context.Context, q cdc.Queue) error
	// Progress returns the position to save once every batch up to seq is durable.
	Progress(seq uint64) cdc.Progress
	// Confirm tells the source that every batch up to seq is durable and saved. It never blocks.
	Confirm(seq uint64)
}

// Lagging is a [Source] that knows how far behind it reads, also while no outbox rows arrive.
type Lagging interface {
	// Lag is how far behind the end of the WAL or binlog it reads; 0 at that end. It never blocks.
	Lag() time.Duration
}

// Adopting is a [Source] that goes on from a position whose identity it replaces only once it has reached its end: until then the next start
// must see what was wrong with that position, which a timeline or a fingerprint may tell.
type Adopting interface {
	// Identity returns the source's identity to save with Progress(seq). It never blocks.
	Identity(seq uint64) cdc.Source
	// Claimed returns what a claim stores in place of the checkpoint that was found.
	Claimed(found cdc.Checkpoint) cdc.Checkpoint
}

// Router turns rows into messages. It is pure.
type Router interface {
	// Route fills dst, which was reset to b. On an error nothing of b may be published.
	Route(b *cdc.Batch, dst *cdc.Routed) error
}

// Sink publishes messages in order.
type Sink interface {
	// Open connects. It is called by a leader, before Send, and again after an error. fence is the transactional ID:
	// late writes of a sink that was opened earlier with the same one, or with one that it replaces, must be rejected.
	Open(ctx context.Context, fence string, replaced ...string) error
	// Send publishes r, which must not change until its Durable arrived. It may block for back-pressure.
	Send(ctx context.Context, r *cdc.Routed) error
	// Fenced reports whether another sink has been opened with the same fence since; false also where that is not known. It does not
	// fence the other one.
	Fenced(ctx context.Context) bool
	// Durable receives one answer for each Send, in any order. The first error is final.
	Durable() <-chan cdc.Durable
	// Kill closes every connection: nothing is sent after it returns.
	Kill()
	// Reset makes it possible to open the sink again after Kill.
	Reset()
}

// Committer makes what the Sink publishes visible together with its position: exactly once. Positions are the sink's
// then, and the Checkpointer keeps a copy.
type Committer interface {
	// Newest returns the last checkpoint that is readable, or false if there is none: a transaction that is open hides what is
	// behind it. The sink need not be open.
	Newest(ctx context.Context) (cdc.Checkpoint, bool, error)
	// Last returns the last committed checkpoint, or false if there is none. The sink must have been opened just before.
	Last(ctx context.Context) (cdc.Checkpoint, bool, error)
	// Commit commits all that was sent up to the last [cdc.Durable] that says Cut, with c. An error that wraps
	// cdc.ErrRewind leaves open whether it did.
	Commit(ctx context.Context, c cdc.Checkpoint) error
	// Abort ends the transaction that the sink has left open, if any. The sink was opened with fence and killed.
	Abort(ctx context.Context, fence string) error
}

// Checkpointer keeps the position.
type Checkpointer interface {
	// Load returns the last checkpoint, or false if there is none. In that case only Generation and Sequence may be
	// set, after a reset.
	Load(ctx context.Context) (cdc.Checkpoint, bool, error)
	// Claim stores next, the first checkpoint of a run, in place of loaded, which may be of another source. It fails if another
	// one is stored by now; the error wraps cdc.ErrStandby if another relay uses the store, for whose end Claim has waited for
	// a while.
	Claim(ctx context.Context, next, loaded cdc.Checkpoint) error
	// Save stores c unless a newer generation is stored: then the error wraps cdc.ErrFenced.
	Save(ctx context.Context, c cdc.Checkpoint) error
}

// Handover is what a [Checkpointer] of at-least-once delivery also is where exactly-once delivery may have published before: its Claim
// supersedes the position in Kafka.
type Handover interface {
	// Resume returns the position that counts, given the checkpoint.
	Resume(ctx context.Context, id cdc.Source, stored cdc.Checkpoint, found bool) (cdc.Checkpoint, bool, error)
}

// Letters resolves dead letters while the relay leads.
type Letters interface {
	// Load reads which letters there are. It follows Open of the sink and precedes its first Send, and with exactly-once delivery the
	// commit of the claim. from is where the relay starts.
	Load(ctx context.Context, id cdc.Source, from cdc.Progress) error
	// Run ends when ctx does, or with an error that ends the run. saved returns the position that was saved last.
	Run(ctx context.Context, saved func() cdc.Progress) error
	// Stuck reports whether the sink accepts nothing behind the batch last, because there may be no more letters.
	Stuck() (last uint64, stuck bool)
}

// Maintainer looks after the outbox tables while the relay leads.
type Maintainer interface {
	// Run ends when ctx does. What it cannot do it logs: it never ends the relay.
	Run(ctx context.Context, kept cdc.Kept)
}
