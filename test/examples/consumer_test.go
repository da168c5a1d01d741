// Package examples runs the examples as users would.
package examples

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// The consumer of docs/consumer.md on real servers.
func TestConsumer(t *testing.T) {
	db, kafka := testenv.Postgres(t, testenv.PostgresOptions{}), testenv.Kafka(t, testenv.KafkaOptions{})
	for topic, partitions := range map[string]int{"orders": 4, "lanes": 2} {
		testenv.Must(t, kafka.CreateTopic(t.Context(), topic, partitions, nil))
	}
	binary := build(t, "consumer")
	started := func(t *testing.T, topic string) *consumer {
		t.Helper()
		c := &consumer{binary: binary, brokers: kafka.Bootstrap()[0], topic: topic, dsn: db.DSN(topic, "")}
		c.createTables(t, db)
		c.start(t)
		return c
	}
	t.Run("repeats", func(t *testing.T) { handlesRepeatsOnce(t, started(t, "orders")) })
	t.Run("lanes", func(t *testing.T) { keepsOrderAndDrains(t, started(t, "lanes")) })
}

func (c *consumer) createTables(t *testing.T, db *testenv.PostgresServer) {
	t.Helper()
	script := outbox.PostgresTable(outbox.TableOptions{Name: outbox.Name{Schema: "public", Table: "outbox"}, Partition: outbox.PartitionNone})
	testenv.Must(t, db.CreateDatabase(t.Context(), c.topic))
	for _, statement := range slices.Concat(outbox.InboxTables(false).Up, script.Up) {
		testenv.Must(t, db.Exec(t.Context(), c.topic, statement.SQL))
	}
}

// handlesRepeatsOnce repeats events and kills the consumer: each is handled once. What it cannot handle becomes a dead letter, once.
func handlesRepeatsOnce(t *testing.T, c *consumer) {
	t.Helper()
	const orders = 300
	brokers, records := []string{c.brokers}, orderRecords(orders)
	produce(t, brokers, records[:200])
	c.await(t, 50, 200)
	c.kill() // before it has committed its offsets
	produce(t, brokers, records[100:])
	c.start(t)
	c.await(t, orders, orders)
	produce(t, brokers, records)
	produce(t, brokers, orderRecords(1)) // one more event, after the repeats
	c.await(t, orders+1, orders+1)

	c.exec(t, "ALTER TABLE revenue ADD CONSTRAINT small CHECK (total < 1000000)")
	refused := orderRecords(3)
	refused[0].Value, refused[1].Value, refused[2].Value = []byte(`{"total": -1}`), []byte(`{"total": 1000000}`), nil
	produce(t, brokers, slices.Concat(refused, refused))
	produce(t, brokers, orderRecords(1)) // behind them
	c.await(t, orders+2, orders+2)
	c.kill()

	count, total := c.revenue(t.Context(), t)
	want := int64(orders*(orders+1)/2 + 2)
	if count != orders+2 || total != want {
		t.Errorf("%d orders with a total of %d, want %d and %d", count, total, orders+2, want)
	}
	c.checkLetters(t, refused)
}

// checkLetters expects one dead letter for each record, in their order.
func (c *consumer) checkLetters(t *testing.T, records []*kgo.Record) {
	t.Helper()
	rows, err := c.connect(t).Query(t.Context(), `SELECT topic, aggregate_id, headers->>'id', headers->>'error', payload FROM outbox ORDER BY event_id`)
	testenv.Must(t, err)
	type letter struct {
		Topic, Key, ID, Error string
		Payload               []byte
	}
	letters, err := pgx.CollectRows(rows, pgx.RowToStructByPos[letter])
	testenv.Must(t, err)
	if len(letters) > len(records) {
		cdctest.Violation(t, cdctest.Duplicates, "%d dead letters of %d records", len(letters), len(records))
	}
	if len(letters) != len(records) {
		t.Fatalf("%d dead letters of %d records", len(letters), len(records))
	}
	for i, reason := range []string{"the total is negative", "violates check constraint", "tombstone"} {
		l, r := letters[i], records[i]
		if l.Topic != "revenue.dead-letters" || l.Key != string(r.Key) || l.ID != idOf(r) || !strings.Contains(l.Error, reason) || !bytes.Equal(l.Payload, r.Value) ||
			(l.Payload == nil) != (r.Value == nil) {
			t.Errorf("letter %d is %+v, of the record %s", i, l, r.Value)
		}
	}
}

func idOf(r *kgo.Record) string {
	for _, h := range r.Headers {
		if h.Key == "ce_id" {
			return string(h.Value)
		}
	}
	return ""
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
	testenv.Must(t, err)
	defer client.Close()
	copies := make([]*kgo.Record, len(records))
	for i, r := range records {
		copies[i] = &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value, Headers: r.Headers}
	}
	testenv.Must(t, client.ProduceSync(t.Context(), copies...).FirstErr())
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

// consumer runs the example, one process after another. Its database and its group have the name of its topic.
type consumer struct {
	binary, brokers, topic, dsn string
	cmd                         *exec.Cmd
	log                         testenv.Log // of all instances
}

func (c *consumer) start(t *testing.T) {
	t.Helper()
	c.cmd = c.process(t, "first")
}

// process starts an instance, whose name is that of its connections, too.
func (c *consumer) process(t *testing.T, instance string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(c.binary, "-brokers", c.brokers, "-topic", c.topic, "-group", c.topic, "-instance", instance, "-dsn", c.dsn)
	cmd.Env = append(os.Environ(), "PGAPPNAME="+instance)
	cmd.SysProcAttr = cdctest.DieWithParent()
	cmd.Stderr = &c.log
	testenv.Must(t, cmd.Start())
	t.Cleanup(func() {
		if kill(cmd); t.Failed() {
			t.Log(c.log.String())
		}
	})
	return cmd
}

func (c *consumer) kill() { kill(c.cmd) }

func kill(cmd *exec.Cmd) {
	if cmd.ProcessState == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// connect opens a connection that the test closes.
func (c *consumer) connect(t *testing.T) *pgx.Conn {
	t.Helper()
	db, err := pgx.Connect(t.Context(), c.dsn)
	testenv.Must(t, err)
	t.Cleanup(func() { _ = db.Close(context.WithoutCancel(t.Context())) })
	return db
}

func (c *consumer) exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := c.connect(t).Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// await waits until at least n orders are counted, and fails if there are more than most.
func (c *consumer) await(t *testing.T, n, most int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cdctest.Patience(time.Minute))
	defer cancel()
	err := cdctest.Await(ctx, fmt.Sprintf("%d orders", n), func(ctx context.Context) (bool, error) {
		count, _ := c.revenue(ctx, t)
		if count > most {
			cdctest.Violation(t, cdctest.Duplicates, "%d orders were counted, there are %d", count, most)
			return false, errors.New("orders were counted twice")
		}
		return count >= n, nil
	})
	testenv.Must(t, err)
}

func (c *consumer) revenue(ctx context.Context, t *testing.T) (orders, total int64) {
	t.Helper()
	db, err := pgx.Connect(ctx, c.dsn)
	testenv.Must(t, err)
	defer func() { _ = db.Close(ctx) }()
	err = db.QueryRow(ctx, `SELECT coalesce(sum(orders), 0), coalesce(sum(total), 0)::bigint FROM revenue`).Scan(&orders, &total)
	if err != nil {
		return 0, 0 // the example creates its tables when it starts
	}
	return orders, total
}
