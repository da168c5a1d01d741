package publisher

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Values of Options.TransactionalID that are no ids.
const (
	// TransactionalAuto stands for the name that Open is given.
	TransactionalAuto = "auto"
	// TransactionalNone stands for no fence.
	TransactionalNone = "none"
)

// TransactionalPrefix begins the names that relays open their publishers under, so that one grant does for all.
const TransactionalPrefix = "cdc-relay."

// # The fence
//
// A relay that is killed leaves requests in its connections' buffers, and a broker reads them when it comes
// to it: requests of one connection one after the other, each once the one before is on all replicas. While
// a follower is slow, that can be seconds after the successor has begun. A late batch of the predecessor
// then stands in the middle of what the successor repeats, or behind it: out of order, and for good where no
// later event of the key follows.
//
// So the successor takes the predecessor's producer id with the next epoch, which InitProducerId hands out
// for a transactional id (KIP-98). A broker refuses a batch of an older epoch in every partition that has seen
// the newer one (org.apache.kafka.storage.internals.log.ProducerAppendInfo.checkProducerEpoch), also outside of
// transactions, and none is begun here. A late batch that comes before the successor's first one stands where
// it belongs. Where the coordinator has used up the epochs of an id, once in 32,000 starts, or has forgotten the
// transactional id (transactional.id.expiration.ms, 7 days, after it was last asked for; see renewInterval), there
// is a new producer id and no fence for that one start.

// producer is the identity that the brokers know our sequence numbers by.
type producer struct {
	id    int64
	epoch int16
}

// nobody asks for an identity whatever the one before was.
func nobody() producer { return producer{-1, -1} }

// stranger is an identity that nobody has: asking with it shows whether one may ask, and changes nothing.
func stranger() producer { return producer{math.MaxInt64, 0} }

// transactionTimeout must be there and below the brokers' transaction.max.timeout.ms; no transaction is begun.
const transactionTimeout = time.Minute

// identify returns an identity for idempotent sending. With a transactional id, identities that were handed
// out before are fenced, and the error is of class fenced if current is one of them.
func (c *cluster) identify(ctx context.Context, transactional string, current producer) (producer, error) {
	id, err := c.initProducer(ctx, transactional, current)
	if err != nil {
		return nobody(), identityError(transactional, err)
	}
	return id, nil
}

// mayIdentify proves that identify would succeed, and fences nobody.
func (c *cluster) mayIdentify(ctx context.Context, transactional string) error {
	_, err := c.initProducer(ctx, transactional, stranger())
	if err == nil || isFenced(err) || errors.Is(err, sarama.ErrInvalidProducerIDMapping) {
		return nil // who asks has the right to, and the coordinator has looked it up
	}
	return identityError(transactional, err)
}

func (c *cluster) initProducer(ctx context.Context, transactional string, current producer) (producer, error) {
	var res *sarama.InitProducerIDResponse
	var err error
	if transactional != "" {
		res, err = c.initTransactional(ctx, transactional, current)
	} else {
		err = c.ask(ctx, func(b *sarama.Broker) (err error) {
			res, err = b.InitProducerID(&sarama.InitProducerIDRequest{Version: 4, ProducerID: -1, ProducerEpoch: -1})
			return err //nolint:wrapcheck // ask wraps it
		})
	}
	switch {
	case err != nil:
		return nobody(), err
	case res.Err != sarama.ErrNoError:
		return nobody(), res.Err
	default:
		return producer{res.ProducerID, res.ProducerEpoch}, nil
	}
}

// initTransactional asks the coordinator of the transactional id.
func (c *cluster) initTransactional(ctx context.Context, transactional string, current producer) (*sarama.InitProducerIDResponse, error) {
	var at *sarama.FindCoordinatorResponse
	err := c.ask(ctx, func(b *sarama.Broker) (err error) {
		at, err = b.FindCoordinator(&sarama.FindCoordinatorRequest{
			Version: 3, CoordinatorKey: transactional, CoordinatorType: sarama.CoordinatorTransaction,
		})
		return err //nolint:wrapcheck // ask wraps it
	})
	switch {
	case err != nil:
		return nil, err
	case at.Err != sarama.ErrNoError:
		return nil, at.Err
	case at.Coordinator == nil:
		return nil, sarama.ErrConsumerCoordinatorNotAvailable
	}
	b, err := c.open(ctx, at.Coordinator.Addr())
	if err != nil {
		return nil, err
	}
	defer func() { _ = b.Close() }()
	res, err := b.InitProducerID(&sarama.InitProducerIDRequest{
		Version: 4, TransactionalID: &transactional, TransactionTimeout: transactionTimeout,
		ProducerID: current.id, ProducerEpoch: current.epoch,
	})
	if err != nil {
		return nil, c.d.explain(at.Coordinator.Addr(), err)
	}
	return res, nil
}

// isFenced: brokers before Kafka 2.7 have one code for it and for what is wrong in a batch.
func isFenced(err error) bool {
	return errors.Is(err, sarama.ErrProducerFenced) || errors.Is(err, sarama.ErrInvalidProducerEpoch)
}

func identityError(transactional string, err error) error {
	switch {
	case isFenced(err): // not wrapped: sarama has no words for it
		return cdc.Stop(cdc.ClassFenced, "fenced", fmt.Errorf("another relay has taken over the transactional id %q in Kafka: "+
			"run one relay for each log, or give each log a kafka.transactional_id of its own", transactional))
	case errors.Is(err, sarama.ErrTransactionalIDAuthorizationFailed):
		return cdc.Stop(cdc.ClassConfig, "kafka_denied", fmt.Errorf("get a producer id: %w: grant the relay's principal WRITE on the "+
			"transactional id %q (or on the prefix cdc-relay.), or set kafka.transactional_id: none to go without its fence", err, transactional))
	case errors.Is(err, sarama.ErrClusterAuthorizationFailed), errors.Is(err, sarama.ErrTopicAuthorizationFailed):
		return cdc.Stop(cdc.ClassConfig, "kafka_denied", fmt.Errorf("get a producer id: %w: "+
			"grant the relay's principal WRITE on its topics (before Kafka 2.8 also IDEMPOTENT_WRITE on the cluster)", err))
	case transactional != "" && errors.Is(err, sarama.ErrConsumerCoordinatorNotAvailable):
		return fmt.Errorf("get a producer id: Kafka has no transaction coordinator for %q (yet): it needs as many brokers as its setting "+
			"transaction.state.log.replication.factor says, 3 by default; kafka.transactional_id: none goes without: %w", transactional, err)
	default:
		return fmt.Errorf("get a producer id: %w", err)
	}
}
