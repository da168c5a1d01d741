package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Values of the setting kafka.transactional_id that are not IDs.
const (
	// TransactionalAuto stands for an ID that is derived from the database.
	TransactionalAuto = "auto"
	// TransactionalNone turns the fence off.
	TransactionalNone = "none"
)

// TransactionalPrefix begins every derived transactional ID, so that one grant covers all relays.
const TransactionalPrefix = "cdc-relay."

// TransactionalID returns the ID that a setting stands for, "" for none. derived is the one for [TransactionalAuto],
// which is the default.
func TransactionalID(setting, derived string) string {
	switch setting {
	case TransactionalAuto, "":
		return derived
	case TransactionalNone:
		return ""
	default:
		return setting
	}
}

// # The fence
//
// A relay that is killed leaves requests in the buffers of its connections. A broker processes the requests of a
// connection in order, each when the one before is on all in-sync replicas. With a slow follower that can be seconds
// after the successor has started. A late batch of the predecessor then lands between or behind the batches that the
// successor repeats: out of order, and permanently if no later event has the same key.
//
// So the successor takes over the predecessor's producer ID with the next epoch, which InitProducerId returns for a
// transactional ID (KIP-98). A partition that has seen the new epoch rejects batches of an older one
// (org.apache.kafka.storage.internals.log.ProducerAppendInfo.checkProducerEpoch), also outside of transactions,
// which only exactly-once delivery begins. A late batch that arrives before the successor's first batch is still in order. There is a new
// producer ID, and no fence for that one start, when the coordinator has used all epochs of an ID, once in 16,000
// starts, or has forgotten the transactional ID (transactional.id.expiration.ms, 7 days, after the last request; the
// publisher renews it daily).

// # Its renewal
//
// A renewal asks for the epoch after the current one, e. If the response is lost, the coordinator may be at e+1. It
// answers a repeated request with e+1 again, because it remembers e as the previous epoch. A coordinator that has taken
// over since does not remember it: transaction records lack the previous epoch
// (org.apache.kafka.coordinator.transaction.TransactionLog). It answers PRODUCER_FENCED, as it would after a successor
// has started.
//
// The epoch e+1 tells the two cases apart: it is never the epoch of another open publisher, because TakeOver accepts an
// epoch only if the one before was returned to itself, and e was returned to this publisher. So a publisher that lost a
// response and then gets PRODUCER_FENCED asks once more, from e+1. Without a successor this succeeds; a successor is at
// e+2 or later. A successor that is between its two requests sees that the second epoch does not follow the first, and
// repeats until it gets two in a row: the successor wins.

// Producer is a producer ID with its epoch. Brokers keep sequence numbers for each.
type Producer struct {
	ID    int64
	Epoch int16
}

// next has the following epoch. A coordinator returns a new ID in place of the last epochs, so there always is one.
func (p Producer) next() Producer { return Producer{p.ID, p.Epoch + 1} }

// noProducer asks for a producer ID whatever the current one is.
func noProducer() Producer { return Producer{-1, -1} }

// withoutFence is no fix for exactly-once delivery, which needs the ID.
const withoutFence = "with at-least-once delivery set kafka.transactional_id: none to do without fencing"

// probeProducer is an unused producer ID; it tests InitProducerId permission without fencing anyone.
func probeProducer() Producer { return Producer{math.MaxInt64, 0} }

// TransactionTimeout is how long a transaction may be open before the coordinator aborts it. It must be below the brokers'
// transaction.max.timeout.ms, which is 15 minutes by default. A relay that is killed and has no successor holds
// read_committed consumers for that long.
const TransactionTimeout = 60 * time.Second

// maxTakeOverRequests is far more than relays that start at the same moment can need.
const maxTakeOverRequests = 20

// TakeOver fences every publisher with the transactional ID and returns a producer ID and epoch that no other publisher
// holds; see "Its renewal". Without a transactional ID it returns a new producer ID and fences nothing.
func (c *Client) TakeOver(ctx context.Context, transactionalID string) (Producer, error) {
	before, err := c.initProducerID(ctx, transactionalID, noProducer())
	if transactionalID == "" || err != nil {
		return before, err
	}
	for range maxTakeOverRequests {
		p, err := c.initProducerID(ctx, transactionalID, noProducer())
		if err != nil || p == before.next() {
			return p, err
		}
		before = p
	}
	return noProducer(), cdc.Fixable(
		"if relays of another database use this kafka.transactional_id, give those one of their own; if this Kafka has no transactions, "+withoutFence,
		"get a producer ID: others take over the transactional ID %q at the same time, or the brokers do not count its epochs", transactionalID)
}

// StartTimeout is how long a cluster that was just started may take to return its first producer ID.
const StartTimeout = 10 * time.Second

// UntilStarted repeats what needs a producer ID while the coordinator loads its state, or Kafka creates its topic of transactions. A
// [cdc.StopError] ends it.
func UntilStarted(ctx context.Context, try func() error) error {
	for since := time.Now(); ; {
		err := try()
		if err == nil || cdc.ClassOf(err) != 0 || time.Since(since) > StartTimeout {
			return err
		}
		if err := cdc.Sleep(ctx, StartTimeout/20); err != nil {
			return err
		}
	}
}

// Renew returns the producer ID and epoch that follow current. The error is of class fenced if a successor has taken
// over. lost: the response to an earlier Renew from current was lost.
func (c *Client) Renew(ctx context.Context, transactionalID string, current Producer, lost bool) (Producer, error) {
	p, err := c.initProducerID(ctx, transactionalID, current)
	if lost && cdc.ClassOf(err) == cdc.ClassFenced {
		return c.initProducerID(ctx, transactionalID, current.next())
	}
	return p, err
}

// checkProducerID returns the error that TakeOver would return, and fences no relay.
func (c *Client) checkProducerID(ctx context.Context, transactionalID string) error {
	// Brokers before Kafka 2.8 require IDEMPOTENT_WRITE for idempotent producers; this request verifies it.
	if _, err := c.initProducerID(ctx, "", noProducer()); err != nil || transactionalID == "" {
		return err
	}
	res, err := c.requestProducerID(ctx, transactionalID, probeProducer())
	switch {
	case err != nil:
		return err
	case res.Err == sarama.ErrNoError, res.Err == sarama.ErrInvalidProducerIDMapping, res.Err == sarama.ErrConcurrentTransactions, isFenced(res.Err):
		return nil // the request was authorized, and the coordinator has looked the ID up
	default:
		return c.producerIDError(transactionalID, res.Err)
	}
}

const (
	// concurrentFirst and concurrentLast bound the pause after CONCURRENT_TRANSACTIONS, which is what a coordinator
	// answers while it aborts a predecessor's transaction.
	concurrentFirst, concurrentLast = time.Millisecond, 20 * time.Millisecond
	// concurrentLimit ends a call that has had no other answer.
	concurrentLimit = 5 * time.Second
)

func (c *Client) initProducerID(ctx context.Context, transactionalID string, current Producer) (Producer, error) {
	p := noProducer()
	for pause, since := concurrentFirst, time.Now(); ; pause = min(2*pause, concurrentLast) {
		res, err := c.requestProducerID(ctx, transactionalID, current)
		switch {
		case err != nil:
			return p, err
		case res.Err == sarama.ErrNoError:
			return Producer{res.ProducerID, res.ProducerEpoch}, nil
		case res.Err != sarama.ErrConcurrentTransactions || time.Since(since) > concurrentLimit:
			return p, c.producerIDError(transactionalID, res.Err)
		}
		if err := cdc.Sleep(ctx, pause); err != nil {
			return p, err
		}
	}
}

// requestProducerID asks the coordinator of the transactional ID, or any broker without one.
func (c *Client) requestProducerID(ctx context.Context, transactionalID string, current Producer) (*sarama.InitProducerIDResponse, error) {
	var res *sarama.InitProducerIDResponse
	err := c.requestCoordinator(ctx, transactionalID, func(b *sarama.Broker) (err error) {
		req := &sarama.InitProducerIDRequest{Version: 4, ProducerID: -1, ProducerEpoch: -1}
		if transactionalID != "" {
			req.TransactionalID, req.TransactionTimeout = &transactionalID, TransactionTimeout
			req.ProducerID, req.ProducerEpoch = current.ID, current.Epoch
		}
		res, err = b.InitProducerID(req)
		return err // the caller wraps it
	})
	return res, err
}

// requestCoordinator is request with the coordinator of a transactional ID, or with any broker without one.
func (c *Client) requestCoordinator(ctx context.Context, transactionalID string, fn func(*sarama.Broker) error) error {
	if transactionalID == "" {
		return c.request(ctx, fn)
	}
	addr, err := c.findCoordinator(ctx, transactionalID)
	if err != nil {
		return err
	}
	b, err := c.open(ctx, addr)
	if err == nil {
		defer func() { _ = b.Close() }()
		if err = fn(b); err == nil {
			return nil
		}
		err = c.explain(b.Addr(), err)
	}
	return err // the coordinator may be down and not replaced yet
}

// findCoordinator returns the address of the broker that keeps the transactional ID.
func (c *Client) findCoordinator(ctx context.Context, transactionalID string) (string, error) {
	var at *sarama.FindCoordinatorResponse
	err := c.request(ctx, func(b *sarama.Broker) (err error) {
		at, err = b.FindCoordinator(&sarama.FindCoordinatorRequest{
			Version: 3, CoordinatorKey: transactionalID, CoordinatorType: sarama.CoordinatorTransaction,
		})
		return err // request wraps it
	})
	switch {
	case errors.Is(err, sarama.ErrUnsupportedVersion):
		return "", c.producerIDError(transactionalID, sarama.ErrUnsupportedVersion)
	case err != nil:
		return "", err
	case at.Err != sarama.ErrNoError:
		return "", c.producerIDError(transactionalID, at.Err)
	case at.Coordinator == nil:
		return "", c.producerIDError(transactionalID, sarama.ErrConsumerCoordinatorNotAvailable)
	}
	return at.Coordinator.Addr(), nil
}

// isFenced: brokers before Kafka 2.7 use INVALID_PRODUCER_EPOCH for this and for errors of a batch.
func isFenced(code sarama.KError) bool {
	return code == sarama.ErrProducerFenced || code == sarama.ErrInvalidProducerEpoch
}

// Fenced reports whether err says that the producer has a successor, or that its transaction was aborted.
func Fenced(err error) bool {
	code, ok := errors.AsType[sarama.KError](err)
	return ok && isFenced(code)
}

// producerIDError explains an answer to a request with the transactional ID.
func (c *Client) producerIDError(transactionalID string, code sarama.KError) error {
	cause := fmt.Errorf("get a producer ID: %w", code)
	switch code {
	case sarama.ErrProducerFenced, sarama.ErrInvalidProducerEpoch: // not wrapped: sarama has no text for the first
		return cdc.Stop(cdc.ClassFenced, "fenced", fmt.Errorf("another relay has taken over the transactional ID %q in Kafka", transactionalID),
			"restart this relay: it stands by then; if relays of another database use this kafka.transactional_id, give those one of their own")
	case sarama.ErrTransactionalIDAuthorizationFailed:
		return cdc.Stop(cdc.ClassConfig, "kafka_denied", cause, c.opts.grantTransactions(transactionalID)+", or "+withoutFence)
	case sarama.ErrClusterAuthorizationFailed, sarama.ErrTopicAuthorizationFailed:
		return cdc.Stop(cdc.ClassConfig, "kafka_denied", cause,
			"grant the relay's principal WRITE on its topics (before Kafka 2.8 also IDEMPOTENT_WRITE on the cluster)")
	case sarama.ErrConsumerCoordinatorNotAvailable:
		return &cdc.FixableError{Cause: cause, Fix: "if that lasts, start as many brokers as transaction.state.log.replication.factor says, " +
			"or Kafka cannot make its topic __transaction_state; or " + withoutFence}
	case sarama.ErrInvalidTransactionTimeout:
		return cdc.Stop(cdc.ClassConfig, "kafka_config", cause,
			fmt.Sprintf("set the brokers' transaction.max.timeout.ms to %d or more", TransactionTimeout.Milliseconds()))
	default:
		fix := ""
		if transactionalID != "" {
			fix = "if that lasts, and this Kafka has no transactions, " + withoutFence
		}
		return &cdc.FixableError{Cause: cause, Fix: fix}
	}
}

// TransactionDenied stops a relay that may not use its transactional ID any more. No event is the reason.
func (o *Options) TransactionDenied(transactionalID string, cause error) error {
	return cdc.Stop(cdc.ClassConfig, "kafka_denied", fmt.Errorf("publish in a transaction: %w", cause), o.grantTransactions(transactionalID))
}

func (o *Options) grantTransactions(transactionalID string) string {
	principal := "the relay's principal"
	if o.SASL != nil && o.SASL.Username != "" {
		principal = "User:" + o.SASL.Username
	}
	return fmt.Sprintf("grant %s WRITE on the transactional ID %q (or on the prefix %s)", principal, transactionalID, TransactionalPrefix)
}
