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
// it belongs. Where the coordinator has used up the epochs of an id, once in 16,000 starts, or has forgotten the
// transactional id (transactional.id.expiration.ms, 7 days, after it was last asked for; see renewInterval), there
// is a new producer id and no fence for that one start.

// # Its renewal
//
// A renewal asks for the epoch behind the one that the publisher holds, e. When its answer is lost the coordinator may
// be at e+1, and it grants the same question again, because it remembers e as the epoch before. A coordinator that took
// over since does not: transaction records lack that epoch (org.apache.kafka.coordinator.transaction.TransactionLog).
// It answers PRODUCER_FENCED, as it would if a successor had been opened.
//
// The two are told apart by the epoch e+1: it is never the epoch of another publisher that is open. For takeOver opens
// with an epoch only if the one before it was given to itself, and e was given to this publisher. So a publisher whose
// answer was lost and that is told that it is fenced asks once more, from e+1: with no successor that is granted, and a
// successor is at e+2 or further. A successor that has asked once, and is between its two questions, finds that the
// second epoch does not follow the first, and goes on until it has two in a row: it wins.

// producer is the identity that the brokers know our sequence numbers by.
type producer struct {
	id    int64
	epoch int16
}

// next is the epoch that follows. A coordinator hands out a new id instead of the last ones, so there is always one.
func (p producer) next() producer { return producer{p.id, p.epoch + 1} }

// nobody asks for an identity whatever the one before was.
func nobody() producer { return producer{-1, -1} }

// stranger is an identity that nobody has: asking with it shows whether one may ask, and changes nothing.
func stranger() producer { return producer{math.MaxInt64, 0} }

// transactionTimeout must be there and below the brokers' transaction.max.timeout.ms; no transaction is begun.
const transactionTimeout = 10 * time.Second

// identify returns an identity for idempotent sending. With a transactional id, identities that were handed
// out before are fenced, and the error is of class fenced if current is one of them.
func (c *cluster) identify(ctx context.Context, transactional string, current producer) (producer, error) {
	res, err := c.initProducer(ctx, transactional, current)
	switch {
	case err != nil:
		return nobody(), err
	case res.Err != sarama.ErrNoError:
		return nobody(), identityError(transactional, res.Err)
	default:
		return producer{res.ProducerID, res.ProducerEpoch}, nil
	}
}

// takeOverQuestions is far more than relays that are opened at the same moment can make necessary.
const takeOverQuestions = 20

// takeOver fences every publisher of the transactional id and returns an identity that is never mistaken for one of
// theirs: see "Its renewal".
func (c *cluster) takeOver(ctx context.Context, transactional string) (producer, error) {
	before, err := c.identify(ctx, transactional, nobody())
	if transactional == "" || err != nil {
		return before, err
	}
	for range takeOverQuestions {
		id, err := c.identify(ctx, transactional, nobody())
		if err != nil || id == before.next() {
			return id, err
		}
		before = id
	}
	return nobody(), &cdc.FixableError{
		Cause: fmt.Errorf("get a producer id: others take the transactional ID %q over at the same time, or the brokers do not count its epochs", transactional),
		Fix:   "run one relay for each database; if this Kafka has no transactions, set kafka.transactional_id: none",
	}
}

// renew returns the identity that follows current. unsure: an earlier question of the kind had no clear answer.
func (c *cluster) renew(ctx context.Context, transactional string, current producer, unsure bool) (producer, error) {
	id, err := c.identify(ctx, transactional, current)
	if stop, ok := errors.AsType[*cdc.StopError](err); ok && stop.Class == cdc.ClassFenced && unsure {
		return c.identify(ctx, transactional, current.next())
	}
	return id, err
}

// mayIdentify proves that identify would succeed, and fences nobody.
func (c *cluster) mayIdentify(ctx context.Context, transactional string) error {
	// Brokers before Kafka 2.8 want a right of its own for idempotent sending, which this one proves.
	if _, err := c.identify(ctx, "", nobody()); err != nil || transactional == "" {
		return err
	}
	res, err := c.initProducer(ctx, transactional, stranger())
	switch {
	case err != nil:
		return err
	case res.Err == sarama.ErrNoError, res.Err == sarama.ErrInvalidProducerIDMapping, isFenced(res.Err):
		return nil // who asks has the right to, and the coordinator has looked it up
	default:
		return identityError(transactional, res.Err)
	}
}

// initProducer asks any broker, or the coordinator of the transactional id.
func (c *cluster) initProducer(ctx context.Context, transactional string, current producer) (*sarama.InitProducerIDResponse, error) {
	var res *sarama.InitProducerIDResponse
	err := c.askCoordinator(ctx, transactional, func(b *sarama.Broker) (err error) {
		req := &sarama.InitProducerIDRequest{Version: 4, ProducerID: -1, ProducerEpoch: -1}
		if transactional != "" {
			req.TransactionalID, req.TransactionTimeout = &transactional, transactionTimeout
			req.ProducerID, req.ProducerEpoch = current.id, current.epoch
		}
		res, err = b.InitProducerID(req)
		return err // who calls wraps it
	})
	return res, err
}

// askCoordinator is ask with the broker that looks after a transactional id, or any where there is none.
func (c *cluster) askCoordinator(ctx context.Context, transactional string, fn func(*sarama.Broker) error) error {
	if transactional == "" {
		return c.ask(ctx, fn)
	}
	var at *sarama.FindCoordinatorResponse
	err := c.ask(ctx, func(b *sarama.Broker) (err error) {
		at, err = b.FindCoordinator(&sarama.FindCoordinatorRequest{
			Version: 3, CoordinatorKey: transactional, CoordinatorType: sarama.CoordinatorTransaction,
		})
		return err // ask wraps it
	})
	switch {
	case errors.Is(err, sarama.ErrUnsupportedVersion):
		return identityError(transactional, sarama.ErrUnsupportedVersion)
	case err != nil:
		return err
	case at.Err != sarama.ErrNoError:
		return identityError(transactional, at.Err)
	case at.Coordinator == nil:
		return identityError(transactional, sarama.ErrConsumerCoordinatorNotAvailable)
	}
	b, err := c.open(ctx, at.Coordinator.Addr())
	if err == nil {
		defer func() { _ = b.Close() }()
		if err = fn(b); err == nil {
			return nil
		}
		err = c.d.explain(b.Addr(), err)
	}
	return err // it may be down, and another not yet in its place
}

// isFenced: brokers before Kafka 2.7 have one code for it and for what is wrong in a batch.
func isFenced(code sarama.KError) bool {
	return code == sarama.ErrProducerFenced || code == sarama.ErrInvalidProducerEpoch
}

func identityError(transactional string, code sarama.KError) error {
	cause := fmt.Errorf("get a producer id: %w", code)
	switch code {
	case sarama.ErrProducerFenced, sarama.ErrInvalidProducerEpoch: // not wrapped: sarama has no words for the first
		return cdc.Stop(cdc.ClassFenced, "fenced", fmt.Errorf("another relay has taken over the transactional ID %q in Kafka", transactional),
			"run one relay for each database, or give each a kafka.transactional_id of its own")
	case sarama.ErrTransactionalIDAuthorizationFailed:
		return cdc.Stop(cdc.ClassConfig, "kafka_denied", cause, fmt.Sprintf("grant the relay's principal WRITE on the transactional ID %q "+
			"(or on the prefix %s), or set kafka.transactional_id: none to go without its fence", transactional, TransactionalPrefix))
	case sarama.ErrClusterAuthorizationFailed, sarama.ErrTopicAuthorizationFailed:
		return cdc.Stop(cdc.ClassConfig, "kafka_denied", cause,
			"grant the relay's principal WRITE on its topics (before Kafka 2.8 also IDEMPOTENT_WRITE on the cluster)")
	case sarama.ErrConsumerCoordinatorNotAvailable:
		return &cdc.FixableError{Cause: cause, Fix: "if that lasts, start as many brokers as transaction.state.log.replication.factor says, " +
			"or Kafka cannot make its topic __transaction_state; or set kafka.transactional_id: none to go without the fence"}
	default:
		fix := ""
		if transactional != "" {
			fix = "if that lasts, and this Kafka has no transactions, set kafka.transactional_id: none"
		}
		return &cdc.FixableError{Cause: cause, Fix: fix}
	}
}
