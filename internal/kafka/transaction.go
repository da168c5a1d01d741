package kafka

import (
	"context"
	"fmt"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Transactions adds partitions to the transactions of one producer, and commits them. It keeps a connection to the
// coordinator. One goroutine at a time may use it.
//
// Its errors: [cdc.ErrRewind] where only a new producer, with a new epoch, can tell whether a transaction was committed;
// a [cdc.StopError] for a missing right; after all others the call is repeated, which does no harm even if the coordinator
// had done it: a commit that is repeated is answered like the first. One of them is [sarama.ErrConcurrentTransactions], which is
// what a coordinator answers until it has written the commit before into all partitions: usually for a millisecond or two.
type Transactions struct {
	client *Client
	id     string
	conn   *Conn // to the coordinator; nil: not known
}

// Transactions returns the transactions of a transactional ID. Nobody else may use c.
func (c *Client) Transactions(transactionalID string) *Transactions {
	return &Transactions{client: c, id: transactionalID}
}

// Add adds partitions, by topic, to the open transaction; the first ones begin it. A partition must be added before a
// record is sent to it. Adding one twice does no harm, so an Add without a response is repeated.
func (t *Transactions) Add(ctx context.Context, p Producer, partitions map[string][]int32) error {
	return t.ask(ctx, func(b *Conn) (sarama.KError, error) {
		res, err := b.AddPartitionsToTxn(&sarama.AddPartitionsToTxnRequest{
			Version: 2, TransactionalID: t.id, ProducerID: p.ID, ProducerEpoch: p.Epoch, TopicPartitions: partitions,
		})
		if err != nil {
			return 0, fmt.Errorf("add partitions to the transaction: %w", err)
		}
		return firstError(res)
	})
}

// TopicDenied is the error of an Add without the right to write to a topic.
type TopicDenied struct {
	error

	Topic string
}

// Unwrap returns the cause.
func (e *TopicDenied) Unwrap() error { return e.error }

// firstError returns the error of an Add, which is that of one of its partitions: none of the others was added then.
func firstError(res *sarama.AddPartitionsToTxnResponse) (sarama.KError, error) {
	code := sarama.ErrNoError
	for topic, partitions := range res.Errors {
		for _, p := range partitions {
			switch p.Err {
			case sarama.ErrNoError, sarama.ErrOperationNotAttempted:
				continue
			case sarama.ErrTopicAuthorizationFailed:
				return p.Err, &TopicDenied{DeniedTopicError(topic, p.Err), topic}
			default:
				code = p.Err
			}
		}
	}
	return code, nil
}

// Commit commits the transaction. Without a response it may be committed or not, and the request may even arrive later;
// the next producer's epoch makes it too old then.
//
// It is the only EndTxn, and none aborts: only a new epoch ends a transaction that is not committed. A batch without a
// response may still be on its way. If its transaction were aborted under the same epoch, Kafka would take it for a
// part of the next one, and commit it a second time. A batch of an older epoch is rejected. So a relay commits only
// after every batch is acknowledged, and ends everything else by InitProducerId.
func (t *Transactions) Commit(ctx context.Context, p Producer) error {
	return t.ask(ctx, func(b *Conn) (sarama.KError, error) {
		res, err := b.EndTxn(&sarama.EndTxnRequest{
			Version: 2, TransactionalID: t.id, ProducerID: p.ID, ProducerEpoch: p.Epoch, TransactionResult: true,
		})
		if err != nil {
			return 0, fmt.Errorf("%w: commit the transaction: %w", cdc.ErrRewind, err)
		}
		return res.Err, nil
	})
}

// ask calls fn with the coordinator.
func (t *Transactions) ask(ctx context.Context, fn func(*Conn) (sarama.KError, error)) error {
	if err := t.connect(ctx); err != nil {
		return err
	}
	code, err := fn(t.conn)
	if code == 0 && err != nil || isMoved(code) {
		t.Close()
	}
	if err != nil {
		return err
	}
	return t.refusal(code)
}

func (t *Transactions) connect(ctx context.Context) error {
	if t.conn != nil {
		return nil
	}
	addr, err := t.client.findCoordinator(ctx, t.id)
	if err != nil {
		return err
	}
	t.conn, err = t.client.connect(ctx, addr, t.client.opts.RequestTimeout, 1)
	return err
}

// Close closes the connections. The next call opens others.
func (t *Transactions) Close() {
	t.client.Close()
	if t.conn != nil {
		_ = t.conn.Close()
		t.conn = nil
	}
}

// isMoved: the coordinator is another broker, or becomes one.
func isMoved(code sarama.KError) bool {
	return code == sarama.ErrNotCoordinatorForConsumer || code == sarama.ErrConsumerCoordinatorNotAvailable ||
		code == sarama.ErrOffsetsLoadInProgress
}

// refusal is the error that a code means.
func (t *Transactions) refusal(code sarama.KError) error {
	switch {
	case code == sarama.ErrNoError:
		return nil
	case code == sarama.ErrTransactionalIDAuthorizationFailed:
		return t.client.opts.TransactionDenied(t.id, code)
	case isMoved(code), code == sarama.ErrConcurrentTransactions, code == sarama.ErrUnknownTopicOrPartition,
		code == sarama.ErrRequestTimedOut, code == sarama.ErrNotEnoughReplicas:
		return fmt.Errorf("transaction of %q: %w", t.id, code)
	case isFenced(code):
		return fmt.Errorf("%w: %w: another one has the transactional ID %q, or Kafka aborted a transaction that was open for longer than %s",
			cdc.ErrRewind, cdc.ErrFenced, t.id, TransactionTimeout)
	default: // the transaction has timed out, or the coordinator has forgotten it
		return fmt.Errorf("%w: transaction of %q: %w", cdc.ErrRewind, t.id, code)
	}
}
