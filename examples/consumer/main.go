// Command consumer handles each event of a topic exactly once. It records the IDs of handled events in a table, in the
// same transaction as the work. docs/deduplication.md explains it.
//
//	go run ./consumer -brokers localhost:9092 -topic orders -dsn "$DATABASE_URL"
//
// Its work must not be done twice: it adds up the totals of orders.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
)

// schema belongs to the consumer, whose database may differ from the outbox's.
const schema = `
CREATE TABLE IF NOT EXISTS processed_events (
  event_id uuid PRIMARY KEY,
  processed_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS revenue (
  currency text PRIMARY KEY,
  orders bigint NOT NULL,
  total bigint NOT NULL
)`

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
	db, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	if _, err := db.Exec(ctx, schema); err != nil {
		return fmt.Errorf("create tables: %w", err)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic), kgo.ConsumerGroup("revenue"), kgo.InstanceID(instance),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(), // offsets are committed after the work
		kgo.BlockRebalanceOnPoll(),
	)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	for ctx.Err() == nil {
		if err := consume(ctx, db, client); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// consume handles the fetched records and then commits their offsets. After a crash in between, the same records are
// fetched again.
func consume(ctx context.Context, db *pgx.Conn, client *kgo.Client) error {
	defer client.AllowRebalance()
	fetches := client.PollFetches(ctx)
	if err := fetches.Err0(); err != nil {
		return err
	}
	for records := fetches.RecordIter(); !records.Done(); {
		r := records.Next()
		if err := handle(ctx, db, r); err != nil {
			return fmt.Errorf("record %s[%d]@%d: %w", r.Topic, r.Partition, r.Offset, err)
		}
	}
	return client.CommitUncommittedOffsets(ctx)
}

// handle does an event's work once: the ID and the work are written in one transaction.
func handle(ctx context.Context, db *pgx.Conn, r *kgo.Record) error {
	id, err := uuid.Parse(header(r, "ce_id"))
	if err != nil {
		return fmt.Errorf("header ce_id: %w", err)
	}
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		mark, err := tx.Exec(ctx, `INSERT INTO processed_events (event_id) VALUES ($1) ON CONFLICT DO NOTHING`, id.String())
		if err != nil || mark.RowsAffected() == 0 { // no row: it was handled before
			return err
		}
		return work(ctx, tx, r)
	})
}

// work is the consumer's business logic.
func work(ctx context.Context, tx pgx.Tx, r *kgo.Record) error {
	if header(r, "ce_type") != "OrderPlaced" {
		return nil
	}
	var order struct {
		Total int64 `json:"total"`
	}
	if err := json.Unmarshal(r.Value, &order); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `INSERT INTO revenue VALUES ('EUR', 1, $1)
		ON CONFLICT (currency) DO UPDATE SET orders = revenue.orders + 1, total = revenue.total + $1`, order.Total)
	return err
}

func header(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}
