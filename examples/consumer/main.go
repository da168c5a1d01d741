// Command consumer does the work of each event of a topic once, in a consumer group of sarama. docs/consumer.md explains it.
//
//	cdc-relay schema print --inbox | psql "$DATABASE_URL"
//	cdc-relay schema print | psql "$DATABASE_URL" # for dead letters
//	go run ./consumer -brokers localhost:9092 -topic orders -dsn "$DATABASE_URL"
//
// Its work must not be done twice: it adds up the orders of each customer, whose ID is the record's key. Orders of a customer are handled in
// order, customers in parallel. An event that cannot be handled becomes a dead letter, in the transaction that records it as done.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/IBM/sarama"
	"github.com/jackc/pgx/v5/pgxpool"
)

func main() {
	brokers := flag.String("brokers", "localhost:9092", "Kafka, `host:port,...`")
	topic := flag.String("topic", "orders", "topic to read")
	group := flag.String("group", "revenue", "`name` of the consumer group")
	instance := flag.String("instance", "revenue-1", "`name` of this consumer in its group: restarted, it takes its place back at once")
	dsn := flag.String("dsn", os.Getenv("DATABASE_URL"), "the consumer's own `database`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, strings.Split(*brokers, ","), *topic, *group, *instance, *dsn)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "consumer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, brokers []string, topic, group, instance, dsn string) error {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	stopped, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	c, err := newConsumer(ctx, pool, stop)
	if err != nil {
		return err
	}
	config := sarama.NewConfig()
	config.Consumer.Group.InstanceId = instance
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	members, err := sarama.NewConsumerGroup(brokers, group, config)
	if err != nil {
		return err
	}
	defer func() { _ = members.Close() }()
	for stopped.Err() == nil { // Consume returns at each change of the group
		if err := members.Consume(stopped, []string{topic}, c); err != nil && stopped.Err() == nil {
			return err
		}
	}
	if ctx.Err() == nil {
		return context.Cause(stopped)
	}
	return nil
}
