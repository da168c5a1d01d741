// Command consumer does the work of each event of a topic once, in a consumer group of sarama. docs/consumer.md explains it.
//
//	cdc-relay schema print --inbox | psql "$DATABASE_URL"
//	cdc-relay schema print | psql "$DATABASE_URL" # for dead letters
//	go run ./consumer -brokers localhost:9092 -topic orders -dsn "$DATABASE_URL"
//
// Its work must not be done twice: it adds up the totals of orders. Orders of a key are handled in order, keys in parallel. An event that
// cannot be handled becomes a dead letter, in the transaction that records it as done.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/IBM/sarama"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/pgxinbox"
	"github.com/cdc-relay/cdc-relay/writer"
	"github.com/cdc-relay/cdc-relay/writer/pgxwriter"
)

const (
	workers  = 8
	attempts = 5
	drain    = 20 * time.Second // below Config.Consumer.Group.Rebalance.Timeout
)

func main() {
	brokers := flag.String("brokers", "localhost:9092", "Kafka, `host:port,...`")
	topic := flag.String("topic", "orders", "topic to read")
	instance := flag.String("instance", "revenue-1", "`name` of this consumer in its group: restarted, it takes its place back at once")
	dsn := flag.String("dsn", os.Getenv("DATABASE_URL"), "the consumer's own `database`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, strings.Split(*brokers, ","), *topic, *instance, *dsn)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "consumer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, brokers []string, topic, instance, dsn string) error {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	c, err := newConsumer(ctx, pool)
	if err != nil {
		return err
	}
	config := sarama.NewConfig()
	config.Consumer.Group.InstanceId = instance
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	group, err := sarama.NewConsumerGroup(brokers, "revenue", config)
	if err != nil {
		return err
	}
	defer func() { _ = group.Close() }()
	for ctx.Err() == nil { // Consume returns at each change of the group
		if err := group.Consume(ctx, []string{topic}, c); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// consumer is the handler of the group. Setup and Cleanup have nothing to do.
type consumer struct {
	inbox    *inbox.Inbox[pgx.Tx]
	handlers inbox.Registry[pgx.Tx]
	letters  *pgxwriter.Writer
	workers  inbox.Workers // of all partitions
	log      *slog.Logger
}

type order struct {
	Total int64 `json:"total"`
}

func newConsumer(ctx context.Context, pool *pgxpool.Pool) (*consumer, error) {
	const revenue = `CREATE TABLE IF NOT EXISTS revenue (currency text PRIMARY KEY, orders bigint NOT NULL, total bigint NOT NULL)`
	if _, err := pool.Exec(ctx, revenue); err != nil {
		return nil, fmt.Errorf("create table: %w", err)
	}
	in, err := inbox.New(pgxinbox.Pool(pool), "revenue")
	if err != nil {
		return nil, err
	}
	if err := in.Check(ctx); err != nil {
		return nil, err
	}
	letters, err := pgxwriter.New()
	if err != nil {
		return nil, err
	}
	c := &consumer{inbox: in, letters: letters, workers: inbox.NewWorkers(workers), log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	c.handlers.Default(func(context.Context, pgx.Tx, *inbox.Message) error { return nil }) // other events are none of its business
	return c, inbox.OnJSON(&c.handlers, "", "OrderPlaced", add)
}

// add is the consumer's business logic.
func add(ctx context.Context, tx pgx.Tx, _ *inbox.Message, o order) error {
	if o.Total < 0 {
		return inbox.Permanent(fmt.Errorf("the total is negative: %d", o.Total))
	}
	_, err := tx.Exec(ctx, `INSERT INTO revenue VALUES ('EUR', 1, $1)
		ON CONFLICT (currency) DO UPDATE SET orders = revenue.orders + 1, total = revenue.total + $1`, o.Total)
	return err
}

func (*consumer) Setup(sarama.ConsumerGroupSession) error { return nil }

func (*consumer) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim consumes a partition until it goes to another consumer, and then waits for its handlers. It marks the offset before the first
// unfinished message; sarama commits it.
func (c *consumer) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	finished := make(chan struct{}, 1)
	lanes := inbox.NewLanes(context.WithoutCancel(session.Context()), inbox.LanesConfig{
		Workers: c.workers, Handle: c.handle,
		Finished: func() {
			select {
			case finished <- struct{}{}:
			default:
			}
		},
	})
	mark := func() {
		if next := lanes.Next(); next >= 0 {
			session.MarkOffset(claim.Topic(), claim.Partition(), next, "")
		}
	}
	defer mark()
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), drain)
		defer cancel()
		if err := lanes.Stop(ctx); err != nil {
			c.log.Warn("what handlers did not finish is handled again", "partition", claim.Partition(), "error", err)
		}
	}()
	for {
		select {
		case r, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			m, err := message(r)
			if err != nil {
				return err
			}
			for !lanes.Offer(m) { // full: sarama fetches no more until a message is taken
				select {
				case <-finished:
					mark()
				case <-session.Context().Done():
					return nil
				}
			}
		case <-finished:
			mark()
		case <-session.Context().Done():
			return nil
		}
	}
}

// message returns the record as a message.
func message(r *sarama.ConsumerMessage) (*inbox.Message, error) {
	m := &inbox.Message{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		m.Headers = append(m.Headers, inbox.Header{Key: string(h.Key), Value: h.Value})
	}
	err := m.ReadCloudEvents()
	return m, err
}

// handle is a lane's task: it returns 0 when the message is done, or when to try again.
func (c *consumer) handle(ctx context.Context, m *inbox.Message) time.Duration {
	_, err := c.inbox.Handle(ctx, m, func(ctx context.Context, tx pgx.Tx) error { return c.handlers.Handle(ctx, tx, m) })
	if err != nil && !errors.Is(err, inbox.ErrDatabase) {
		m.Attempt++ // a failure of the database is none
	}
	if inbox.IsPermanent(err) || m.Attempt >= attempts {
		cause := err
		_, err = c.inbox.Handle(ctx, m, func(ctx context.Context, tx pgx.Tx) error { return c.letters.Append(ctx, tx, letter(m, cause)) })
	}
	if err != nil {
		c.log.Warn("handle record", "partition", m.Partition, "offset", m.Offset, "attempt", m.Attempt, "error", err)
		return time.Second
	}
	return 0
}

// letter is the dead letter of a message: an event like any other, which a relay publishes to the topic of its route.
func letter(m *inbox.Message, cause error) *writer.Event {
	return &writer.Event{
		AggregateType: "DeadLetter", AggregateID: cmp.Or(string(m.Key), m.ID), Type: "revenue.failed", Topic: "revenue.dead-letters", Payload: m.Value,
		Headers: map[string]string{"error": cause.Error(), "source": m.Source, "id": m.ID, "type": m.Type},
	}
}
