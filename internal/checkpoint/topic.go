package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Keys of the records in the topic of positions. The barrier has its own, or compaction could remove the position.
const (
	positionKey = "position"
	barrierKey  = "barrier"
)

// committed is the end of what is committed, as an offset.
const committed = -1

// BadPosition is the reason of the error for a record that is not a position.
const BadPosition = "bad_position"

// Topic keeps the checkpoint in Kafka, as the last record of each transaction.
type Topic struct{ log Log }

// Log commits records to a topic, and reads them.
type Log interface {
	// Commit commits the transaction that is open with one more record, and returns the record's offset.
	Commit(ctx context.Context, key string, value []byte) (offset int64, err error)
	// LastPosition returns the value of the last committed record with key before the offset end, or of all if that is -1.
	LastPosition(ctx context.Context, key string, end int64) (value []byte, found bool, err error)
	// Abort ends the transaction that was left open, once the log's writer was killed.
	Abort(ctx context.Context, transactionalID string) error
}

// NewTopic returns the checkpoint in a log.
func NewTopic(log Log) *Topic { return &Topic{log} }

// Newest returns the last committed checkpoint without a barrier: a transaction that is open may still be committed.
func (t *Topic) Newest(ctx context.Context) (cdc.Checkpoint, bool, error) {
	return t.before(ctx, committed)
}

// Last returns the last committed checkpoint, or false if there is none. It commits a barrier first: a leader of the
// partition that was elected just now may not know yet which records before it are committed, and the barrier's
// acknowledgement says that it does.
func (t *Topic) Last(ctx context.Context) (_ cdc.Checkpoint, found bool, err error) {
	end, err := t.log.Commit(ctx, barrierKey, nil)
	if err != nil {
		return cdc.Checkpoint{}, false, err
	}
	return t.before(ctx, end)
}

func (t *Topic) before(ctx context.Context, end int64) (_ cdc.Checkpoint, found bool, err error) {
	value, found, err := t.log.LastPosition(ctx, positionKey, end)
	if err != nil || !found {
		return cdc.Checkpoint{}, false, err
	}
	c, err := decode(value)
	if err != nil {
		reason := BadPosition
		fix := "drop it with `cdc-relay position reset`, find out what consumers have, and set the position with `cdc-relay position set POSITION --skip-events`"
		if errors.Is(err, errNewer) {
			reason, fix = "position_newer", "run the cdc-relay that wrote it, or a newer one"
		}
		return cdc.Checkpoint{}, false, cdc.PositionError(reason, fix, "last record of the position topic cannot be used: %w", err)
	}
	return c.loaded()
}

// Reset commits that there is no position, with a higher generation than c's.
func (t *Topic) Reset(ctx context.Context, c cdc.Checkpoint) error {
	value, err := encode(c)
	if err != nil {
		return err
	}
	if value, err = encodeReset(value, time.Now()); err != nil {
		return err
	}
	_, err = t.log.Commit(ctx, positionKey, value)
	return err
}

// Abort ends the transaction that was left open.
func (t *Topic) Abort(ctx context.Context, transactionalID string) error {
	return t.log.Abort(ctx, transactionalID)
}

// Commit commits the transaction that is open, with c.
func (t *Topic) Commit(ctx context.Context, c cdc.Checkpoint) error {
	value, err := encode(c)
	if err != nil {
		return err
	}
	if _, err := t.log.Commit(ctx, positionKey, value); err != nil {
		return fmt.Errorf("commit to Kafka: %w", err)
	}
	return nil
}
