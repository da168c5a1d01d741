package examples

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// The example of docs/exactly-once.md writes one record for each event, although transactions of the relay are aborted and
// the process is killed and restarted.
func TestInvoices(t *testing.T) {
	const orders = 300
	kafka := testenv.Kafka(t, testenv.KafkaOptions{})
	for _, topic := range []string{"orders", "invoices"} {
		testenv.Must(t, kafka.CreateTopic(t.Context(), topic, 4, nil))
	}
	binary, records := build(t, "invoices"), orderRecords(orders)
	start := func() (kill func()) {
		cmd := exec.Command(binary, "-brokers", kafka.Bootstrap()[0])
		testenv.Must(t, cmd.Start())
		kill = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
		t.Cleanup(kill)
		return kill
	}
	invoices := newInvoices(t, kafka.Bootstrap())

	kill := start()
	transact(t, kafka.Bootstrap(), records[:100], true)
	transact(t, kafka.Bootstrap(), records[100:], false)
	invoices.await(50)
	kill()
	transact(t, kafka.Bootstrap(), records[100:], true)
	kill = start()
	invoices.await(200)
	kill()
	start()
	invoices.await(orders)
	transact(t, kafka.Bootstrap(), []*kgo.Record{{Topic: "orders", Key: []byte("o-1"), Value: []byte(`{"total": 0}`)}}, true) // behind any repeat
	invoices.await(orders + 1)
	if invoices.total != orders+1 {
		cdctest.Violation(t, cdctest.Duplicates, "%d invoices for %d orders", invoices.total, orders+1)
	}
	for amount, n := range invoices.count {
		if n != 1 {
			cdctest.Violation(t, cdctest.Duplicates, "%d invoices of %s", n, amount)
		}
	}
}

// transact publishes copies of the records in one transaction, as the relay does.
func transact(t *testing.T, brokers []string, records []*kgo.Record, commit bool) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.TransactionalID("relay"))
	testenv.Must(t, err)
	defer client.Close()
	testenv.Must(t, client.BeginTransaction())
	for _, r := range records {
		client.Produce(t.Context(), &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value}, nil)
	}
	testenv.Must(t, client.Flush(t.Context()))
	testenv.Must(t, client.EndTransaction(t.Context(), kgo.TransactionEndTry(commit)))
}

// invoices counts the committed records of the output by their value.
type invoices struct {
	t      *testing.T
	client *kgo.Client
	count  map[string]int
	total  int
}

func newInvoices(t *testing.T, brokers []string) *invoices {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics("invoices"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	testenv.Must(t, err)
	t.Cleanup(client.Close)
	return &invoices{t: t, client: client, count: map[string]int{}}
}

// await waits for at least n invoices.
func (i *invoices) await(n int) {
	i.t.Helper()
	ctx, cancel := context.WithTimeout(i.t.Context(), cdctest.Patience(time.Minute))
	defer cancel()
	for i.total < n {
		i.client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			i.count[strings.TrimSpace(string(r.Value))]++
			i.total++
		})
		if ctx.Err() != nil {
			i.t.Fatalf("%d invoices, waited for %d", i.total, n)
		}
	}
}
