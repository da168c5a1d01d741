package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// # Open transactions
//
// A transaction that stays open in a partition holds back its consumers of committed records, whoever began it. It is
// found and judged as by kafka-transactions.sh find-hanging (org.apache.kafka.tools.TransactionsCommand), but for this:
//
//   - A transaction that no coordinator lists is [Unseen], not [Hanging]: coordinators list only those whose
//     transactional IDs the principal may describe, which an administrator may and the relay may not.
//   - A transaction is Hanging only if the partition is asked again after the coordinator: it may have ended in between.
//     find-hanging looks at none that was written to within the last 15 minutes instead.

// Ending says who ends an open transaction.
type Ending string

// The values of an Ending.
const (
	// Ongoing: the coordinator has the partition in a transaction, and ends it at its timeout.
	Ongoing Ending = "ongoing"
	// Hanging: the coordinator has ended the transaction, or it never had the partition: nobody ends it.
	Hanging Ending = "hanging"
	// Unseen: no coordinator lists the producer. It is one of the others.
	Unseen Ending = "unseen"
)

// LongOpen is how long a transaction is open before it is worth a word. None of a relay is open for longer.
const LongOpen = TransactionTimeout

// OpenTransaction is a transaction that is open in a partition.
type OpenTransaction struct {
	Topic     string
	Partition int32
	Producer  Producer
	// Start is the offset of its first record in the partition, where consumers of committed records wait.
	Start int64
	// Written is the time of its last record there; the producer's, unless the topic has the brokers' (message.timestamp.type).
	Written time.Time

	Ending Ending
	// TransactionalID and Timeout are the coordinator's; none if Unseen.
	TransactionalID string
	Timeout         time.Duration

	tool string // the command that an administrator runs
}

// same reports whether o is the same transaction in the same partition.
func (t *OpenTransaction) same(o *OpenTransaction) bool {
	return t.Topic == o.Topic && t.Partition == o.Partition && t.Producer.ID == o.Producer.ID && t.Start == o.Start
}

// Problem is what the transaction does, with the command that ends it. own is the relay's transactional ID, or "".
func (t *OpenTransaction) Problem(own string) error {
	where := fmt.Sprintf("a transaction of producer %d is open in topic %q partition %d, and consumers of committed records wait at its offset %d",
		t.Producer.ID, t.Topic, t.Partition, t.Start)
	abort := fmt.Sprintf("`%s abort --topic %s --partition %d --start-offset %d`", t.tool, t.Topic, t.Partition, t.Start)
	switch {
	case t.Ending == Hanging:
		return cdc.Fixable("run "+abort, "%s; it never ends, because its coordinator has no part of it any more (transactional ID %q)", where, t.TransactionalID)
	case t.Ending == Unseen:
		return cdc.Fixable(fmt.Sprintf("as an administrator run `%s find-hanging --topic %s --partition %d`, and if that lists it, %s; "+
			"to be told the next time, grant the relay's principal DESCRIBE on transactional IDs", t.tool, t.Topic, t.Partition, abort),
			"%s; no coordinator shows it to the relay, so whether it ends is not known", where)
	case t.TransactionalID == own || strings.HasPrefix(t.TransactionalID, TransactionalPrefix):
		return cdc.Fixable("start the relay that has the transactional ID, which aborts it",
			"%s; a relay has left it (transactional ID %q), and Kafka aborts it %s after it began", where, t.TransactionalID, t.Timeout)
	}
	return cdc.Fixable(fmt.Sprintf("find out why the producer does not end it; to abort it and fence the producer, run `%s forceTerminateTransaction --transactionalId %s` (Kafka 4.1 or newer)", t.tool, t.TransactionalID),
		"%s; its producer has not ended it (transactional ID %q), and Kafka aborts it %s after it began", where, t.TransactionalID, t.Timeout)
}

// OpenTransactions are those in some topics.
type OpenTransactions struct {
	All []OpenTransaction
	// Denied are the topics whose producers the principal may not list.
	Denied []string
}

// OpenTransactions returns those of the open transactions in topics that matter. A topic that does not exist is left
// out. It asks the leaders, and only if a transaction matters, also the coordinators.
func (c *Client) OpenTransactions(ctx context.Context, topics []string, matters func(*OpenTransaction) bool) (OpenTransactions, error) {
	defer c.Close()
	if len(topics) == 0 { // without topics Metadata returns all
		return OpenTransactions{}, nil
	}
	open, err := c.describeProducers(ctx, topics)
	open.All = slices.DeleteFunc(open.All, func(t OpenTransaction) bool { return !matters(&t) })
	if err != nil || len(open.All) == 0 {
		return open, err
	}
	if err := c.judge(ctx, open.All); err != nil {
		return open, err
	}
	still, err := c.describeProducers(ctx, topics)
	open.All = slices.DeleteFunc(open.All, func(t OpenTransaction) bool {
		return !slices.ContainsFunc(still.All, func(o OpenTransaction) bool { return o.same(&t) })
	})
	return open, err
}

// ErrTransactionsUnknown is the error of OpenTransactions on brokers that have no requests for it.
var ErrTransactionsUnknown error = &cdc.FixableError{
	Cause: errors.New("the brokers do not tell which transactions are open, so one that holds back consumers is not found"),
	Fix:   "use Apache Kafka 3.0 or newer to have such transactions found",
}

// DeniedError says which topics were not looked at; nil: all were.
func (o *OpenTransactions) DeniedError() error {
	if len(o.Denied) == 0 {
		return nil
	}
	return cdc.Fixable("grant the relay's principal READ on them, and DESCRIBE on transactional IDs, to have such transactions found",
		"a transaction that holds back consumers is not found in %s: it may not be read", strings.Join(o.Denied, ", "))
}

// describedAtOnce is how many partitions a request asks for, as by find-hanging.
const describedAtOnce = 500

// describeProducers returns the open transactions without their endings.
func (c *Client) describeProducers(ctx context.Context, topics []string) (open OpenTransactions, err error) {
	md, err := c.Metadata(ctx, topics)
	if err != nil {
		return open, err
	}
	for _, b := range md.Brokers {
		for some := range slices.Chunk(led(md, b.ID()), describedAtOnce) {
			err := c.ask(ctx, b.Addr(), func(conn *sarama.Broker) error {
				res, err := conn.DescribeProducers(&sarama.DescribeProducersRequest{Topics: some})
				if err == nil {
					c.addOpen(&open, res)
				}
				return err
			})
			if err != nil {
				return open, err
			}
		}
	}
	slices.Sort(open.Denied)
	open.Denied = slices.Compact(open.Denied)
	return open, nil
}

// led are the partitions that a broker leads, each by itself.
func led(md *sarama.MetadataResponse, broker int32) (parts []sarama.DescribeProducersRequestTopic) {
	for _, tp := range md.Topics {
		for _, p := range tp.Partitions {
			if p.Leader == broker {
				parts = append(parts, sarama.DescribeProducersRequestTopic{Name: tp.Name, PartitionIndexes: []int32{p.ID}})
			}
		}
	}
	return parts
}

// ask calls fn with a connection to one broker.
func (c *Client) ask(ctx context.Context, addr string, fn func(*sarama.Broker) error) error {
	b, err := c.open(ctx, addr)
	if err != nil {
		return err
	}
	defer func() { _ = b.Close() }()
	switch err := fn(b); {
	case errors.Is(err, sarama.ErrUnsupportedVersion):
		return ErrTransactionsUnknown
	case isResponse(err):
		return fmt.Errorf("ask Kafka at %s for transactions: %w", addr, err)
	case err != nil:
		return c.explain(addr, err)
	}
	return nil
}

func (c *Client) addOpen(open *OpenTransactions, res *sarama.DescribeProducersResponse) {
	for _, tp := range res.Topics {
		for _, part := range tp.Partitions {
			if part.ErrorCode == sarama.ErrTopicAuthorizationFailed {
				open.Denied = append(open.Denied, tp.Name)
			}
			for _, p := range part.ActiveProducers {
				if p.CurrentTxnStartOffset >= 0 {
					open.All = append(open.All, OpenTransaction{
						Topic: tp.Name, Partition: part.PartitionIndex, Producer: Producer{p.ProducerID, int16(p.ProducerEpoch)},
						Start: p.CurrentTxnStartOffset, Written: time.UnixMilli(p.LastTimestamp), tool: c.opts.transactionsTool(),
					})
				}
			}
		}
	}
}

func (o *Options) transactionsTool() string {
	tool := "kafka-transactions.sh --bootstrap-server " + o.Brokers[0]
	if o.TLS != nil || o.SASL != nil {
		tool += " --command-config FILE"
	}
	return tool
}

// judge asks the coordinators how the transactions end.
func (c *Client) judge(ctx context.Context, open []OpenTransaction) error {
	ids, err := c.transactionalIDs(ctx, open)
	if err != nil {
		return err
	}
	known := map[string]*sarama.TransactionState{}
	for i := range open {
		t := &open[i]
		id, listed := ids[t.Producer.ID]
		if !listed {
			t.Ending = Unseen
			continue
		}
		if known[id] == nil {
			if known[id], err = c.describeTransaction(ctx, id); err != nil {
				return err
			}
		}
		t.TransactionalID, t.Timeout, t.Ending = id, known[id].TransactionTimeout, ending(t, known[id])
	}
	return nil
}

// ending: a coordinator takes a partition out of a transaction only when the partition has the marker of its end.
func ending(t *OpenTransaction, state *sarama.TransactionState) Ending {
	has := slices.ContainsFunc(state.Topics, func(tp sarama.DescribeTransactionsResponseTopic) bool {
		return tp.Topic == t.Topic && slices.Contains(tp.Partitions, t.Partition)
	})
	if has && state.ProducerID == t.Producer.ID {
		return Ongoing
	}
	return Hanging
}

// transactionalIDs returns the transactional IDs of the producers, as far as the brokers list them.
func (c *Client) transactionalIDs(ctx context.Context, open []OpenTransaction) (map[int64]string, error) {
	// Version 1 asks for a duration, and without one is the same as version 0.
	req := &sarama.ListTransactionsRequest{Version: 1, DurationFilter: -1}
	for i := range open {
		if id := open[i].Producer.ID; !slices.Contains(req.ProducerIDFilters, id) {
			req.ProducerIDFilters = append(req.ProducerIDFilters, id)
		}
	}
	ids := map[int64]string{}
	for _, addr := range slices.Clone(c.known) { // each lists those that it coordinates
		err := c.ask(ctx, addr, func(b *sarama.Broker) error {
			res, err := b.ListTransactions(req)
			if err != nil {
				return err
			}
			for _, t := range res.TransactionStates {
				ids[t.ProducerID] = t.TransactionalID
			}
			return orNil(res.ErrorCode)
		})
		if err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// describeTransaction returns what the coordinator has; without a producer if the ID has expired.
func (c *Client) describeTransaction(ctx context.Context, transactionalID string) (*sarama.TransactionState, error) {
	const notFound = sarama.KError(105) // TRANSACTIONAL_ID_NOT_FOUND, for which sarama has no name
	state := &sarama.TransactionState{}
	err := c.requestCoordinator(ctx, transactionalID, func(b *sarama.Broker) error {
		res, err := b.DescribeTransactions(&sarama.DescribeTransactionsRequest{TransactionalIDs: []string{transactionalID}})
		if err != nil || len(res.TransactionStates) == 0 || res.TransactionStates[0].ErrorCode == notFound {
			return err
		}
		state = &res.TransactionStates[0]
		return orNil(state.ErrorCode)
	})
	return state, err
}

func orNil(code sarama.KError) error {
	if code == sarama.ErrNoError {
		return nil
	}
	return code
}
