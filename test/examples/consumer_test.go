// Package examples runs the examples as users would.
package examples

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// The consumer of docs/consumer.md handles each event once, although events are repeated and it is killed and restarted. What it cannot
// handle becomes a dead letter, once.
func TestConsumer(t *testing.T) {
	const orders = 300
	db := testenv.Postgres(t, testenv.PostgresOptions{})
	if err := db.CreateDatabase(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	script, err := outbox.PostgresTable(outbox.TableOptions{Name: outbox.Name{Schema: "public", Table: "outbox"}, Partition: outbox.PartitionNone})
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range slices.Concat(outbox.InboxTables(false).Up, script.Up) {
		if err := db.Exec(t.Context(), "shop", statement.SQL); err != nil {
			t.Fatal(err)
		}
	}
	kafka := testenv.Kafka(t, testenv.KafkaOptions{})
	if err := kafka.CreateTopic(t.Context(), "orders", 4, nil); err != nil {
		t.Fatal(err)
	}
	c := &consumer{binary: build(t, "consumer"), brokers: kafka.Bootstrap()[0], dsn: db.DSN("shop", "")}
	records := orderRecords(orders)

	c.start(t)
	produce(t, kafka.Bootstrap(), records[:200])
	c.await(t, 50, 200)
	c.kill() // before it has committed its offsets
	produce(t, kafka.Bootstrap(), records[100:])
	c.start(t)
	c.await(t, orders, orders)
	produce(t, kafka.Bootstrap(), records)
	produce(t, kafka.Bootstrap(), orderRecords(1)) // one more event, after the repeats
	c.await(t, orders+1, orders+1)
	refused := orderRecords(1)
	refused[0].Value = []byte(`{"total": -1}`)
	produce(t, kafka.Bootstrap(), append(refused, refused[0]))
	c.awaitLetter(t, `{"total": -1}`)
	produce(t, kafka.Bootstrap(), orderRecords(1)) // behind it
	c.await(t, orders+2, orders+2)
	c.kill()

	count, total := c.revenue(t.Context(), t)
	want := int64(orders*(orders+1)/2 + 2)
	if count != orders+2 || total != want {
		t.Errorf("%d orders with a total of %d, want %d and %d", count, total, orders+2, want)
	}
	c.awaitLetter(t, `{"total": -1}`)
}

// orderRecords returns records of one key as the relay publishes them, with totals of 1, 2, 3, ...
func orderRecords(n int) []*kgo.Record {
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{
			Topic: "orders", Key: []byte("o-1"), Value: fmt.Appendf(nil, `{"total": %d}`, i+1),
			Headers: []kgo.RecordHeader{{Key: "ce_source", Value: []byte("/shop")}, {Key: "ce_id", Value: []byte(uuid.NewString())}, {Key: "ce_type", Value: []byte("OrderPlaced")}},
		}
	}
	return records
}

// produce publishes copies, because the client modifies records.
func produce(t *testing.T, brokers []string, records []*kgo.Record) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	copies := make([]*kgo.Record, len(records))
	for i, r := range records {
		copies[i] = &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value, Headers: r.Headers}
	}
	if err := client.ProduceSync(t.Context(), copies...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func build(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "github.com/cdc-relay/cdc-relay/examples/"+name).CombinedOutput()
	if err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// consumer runs the example, one process after another.
type consumer struct {
	binary, brokers, dsn string
	cmd                  *exec.Cmd
}

func (c *consumer) start(t *testing.T) {
	t.Helper()
	c.cmd = exec.Command(c.binary, "-brokers", c.brokers, "-topic", "orders", "-dsn", c.dsn)
	c.cmd.Stdout, c.cmd.Stderr = os.Stdout, os.Stderr
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
}

func (c *consumer) kill() {
	if c.cmd.ProcessState == nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	}
}

// await waits until at least n orders are counted, and fails if there are more than most.
func (c *consumer) await(t *testing.T, n, most int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := cdctest.Await(ctx, fmt.Sprintf("%d orders", n), func(ctx context.Context) (bool, error) {
		count, _ := c.revenue(ctx, t)
		if count > most {
			cdctest.Violation(t, cdctest.Duplicates, "%d orders were counted, there are %d", count, most)
			return false, errors.New("orders were counted twice")
		}
		return count >= n, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// awaitLetter waits for the only dead letter.
func (c *consumer) awaitLetter(t *testing.T, payload string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	db, err := pgx.Connect(ctx, c.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(ctx) }()
	err = cdctest.Await(ctx, "the dead letter", func(ctx context.Context) (bool, error) {
		var n int
		var got string
		err := db.QueryRow(ctx, `SELECT count(*), coalesce(min(convert_from(payload, 'UTF8') || ' ' || topic || ' ' || (headers->>'error')), '') FROM outbox`).Scan(&n, &got)
		if n > 1 || n == 1 && got != payload+" revenue.dead-letters the total is negative: -1" {
			return false, fmt.Errorf("%d letters: %s", n, got)
		}
		return n == 1, err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (c *consumer) revenue(ctx context.Context, t *testing.T) (orders, total int64) {
	t.Helper()
	db, err := pgx.Connect(ctx, c.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(ctx) }()
	err = db.QueryRow(ctx, `SELECT coalesce(sum(orders), 0), coalesce(sum(total), 0)::bigint FROM revenue`).Scan(&orders, &total)
	if err != nil {
		return 0, 0 // the example creates its tables when it starts
	}
	return orders, total
}
