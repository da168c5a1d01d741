package relay

import (
	"context"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// keeper is how an attempt keeps positions. What the two kinds of delivery do differently with them is one of its methods. In both nothing is
// confirmed to the source before it is durable in Kafka and its position saved.
type keeper interface {
	// resume returns the position that counts, given the checkpoint that was loaded, or away, why it was not. It is called while the
	// source is held. With exactly-once delivery it fences earlier leaders first, to read what they committed.
	resume(ctx context.Context, id cdc.Source, loaded cdc.Checkpoint, found bool, away error) (cdc.Checkpoint, bool, error)
	// claim completes c, the first checkpoint of the attempt, and stores it in place of loaded.
	claim(ctx context.Context, c, loaded cdc.Checkpoint) (cdc.Checkpoint, error)
	// open follows claim: when it returns nil, the sink is open and the letters are loaded.
	open(ctx context.Context) error
	// keep saves positions and confirms them, until ctx ends or an error ends the attempt.
	keep(ctx context.Context)
	// stepDown ends the attempt because of err, so that the next one stands by; false: err ends the run.
	stepDown(err error) bool
	// replaced reports whether a position that does not fit, with the reason, was moved by another relay.
	replaced(ctx context.Context, reason string) bool
	// acked returns the position up to which Kafka has acknowledged everything, for display; seq is the end of the durable prefix.
	acked(seq uint64) cdc.Position
	// closing reports whether the window waits for the rest of an open transaction, and whether anything can be drained.
	closing(cause error) (finish, worthwhile bool)
	// drained reports whether everything that can be saved is: of what was sent to the sink, no more than up to the batch last. With cut a
	// transaction that is open is not finished.
	drained(st windowState, last uint64, cut bool) bool
	// finish follows the end of keep.
	finish(ctx context.Context, cause error)
}
