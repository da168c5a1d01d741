// Command invoices writes one record for each event of a topic that a relay with exactly-once delivery publishes: each event
// takes effect once, from the database's commit to the output topic. docs/exactly-once.md explains it.
//
//	go run ./invoices -brokers localhost:9092 -from orders -to invoices
//
// It reads committed records only, and commits its offsets in the transaction of its output.
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

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	brokers := flag.String("brokers", "localhost:9092", "Kafka, `host:port,...`")
	from := flag.String("from", "orders", "topic to read")
	to := flag.String("to", "invoices", "topic to write")
	instance := flag.String("instance", "invoices-1", "`name` of this process: its successor fences it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, strings.Split(*brokers, ","), *from, *to, *instance)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "invoices:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, brokers []string, from, to, instance string) error {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(from), kgo.ConsumerGroup("invoices"), kgo.InstanceID(instance),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), // nothing of a transaction that was aborted
		kgo.TransactionalID(instance), kgo.DefaultProduceTopic(to),
	)
	if err != nil {
		return err
	}
	defer session.Close()
	for ctx.Err() == nil {
		if err := step(ctx, session); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// step handles the fetched records in one transaction. If it is not committed, the same records are fetched again.
func step(ctx context.Context, session *kgo.GroupTransactSession) error {
	fetches := session.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		return err
	}
	if err := session.Begin(); err != nil {
		return err
	}
	err := produce(ctx, session, fetches.RecordIter())
	if _, ended := session.End(context.WithoutCancel(ctx), kgo.TransactionEndTry(err == nil)); err == nil {
		err = ended
	}
	return err
}

func produce(ctx context.Context, session *kgo.GroupTransactSession, records *kgo.FetchesRecordIter) error {
	produced := kgo.AbortingFirstErrPromise(session.Client())
	for !records.Done() {
		invoice, err := invoiceFor(records.Next())
		if err != nil {
			return err
		}
		session.Produce(ctx, invoice, produced.Promise())
	}
	return produced.Err()
}

// invoiceFor is the business logic.
func invoiceFor(r *kgo.Record) (*kgo.Record, error) {
	var order struct {
		Total int64 `json:"total"`
	}
	if err := json.Unmarshal(r.Value, &order); err != nil {
		return nil, fmt.Errorf("record %s[%d]@%d: %w", r.Topic, r.Partition, r.Offset, err)
	}
	return &kgo.Record{Key: r.Key, Value: fmt.Appendf(nil, `{"amount": %d}`, order.Total)}, nil
}
