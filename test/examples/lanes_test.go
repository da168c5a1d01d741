package examples

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// each is how many orders a customer has.
const each = 20

// keepsOrderAndDrains checks the lanes under sarama. A handler that does not end holds its key, and the committed offset of its partition,
// while other keys go on. When a second instance comes, the first one waits for that handler before it gives up the partition.
func keepsOrderAndDrains(t *testing.T, first *consumer) {
	t.Helper()
	l := newLanesTest(t, first)
	slow := l.lock(t, "c-0", "c-5")
	l.produce(t, 0, "c-1", "c-2", "c-0", "c-3", "c-4")
	l.await(t, "other keys to be handled", "SELECT count(*) = 4 FROM revenue WHERE orders = 20")
	l.produce(t, 1, "c-6") // a commit after that
	l.awaitCommitted(t, 1, each)
	l.awaitCommitted(t, 0, 2) // the third record is the first of c-0
	l.produce(t, 1, "c-5")
	l.await(t, "both handlers to wait", "SELECT count(*) = 2 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()")

	const given = "give up partition"
	before := strings.Count(first.log.String(), given)
	first.process(t, "second")
	cdctest.Eventually(t, cdctest.Patience(time.Minute), given, func() bool { return strings.Count(first.log.String(), given) >= before+2 })
	testenv.Must(t, slow.Rollback(t.Context()))
	l.await(t, "all keys to be handled", "SELECT count(*) = 7 FROM revenue WHERE orders = 20")
	l.awaitCommitted(t, 0, 5*each)
	l.awaitCommitted(t, 1, 2*each)
	l.checkOrder(t)
	l.await(t, "the first instance to have handled what it had begun",
		"SELECT count(*) = 2 FROM (SELECT DISTINCT ON (customer) instance FROM history WHERE customer IN ('c-0', 'c-5') AND total > 0 ORDER BY customer, id) AS h WHERE instance = 'first'")
	l.await(t, "the second instance to have taken a partition", "SELECT count(*) > 0 FROM history WHERE instance = 'second'")
}

type lanesTest struct {
	*consumer

	db    *pgx.Conn
	kafka *kgo.Client
}

// newLanesTest records what the consumer does by a trigger.
func newLanesTest(t *testing.T, c *consumer) *lanesTest {
	t.Helper()
	kafka, err := kgo.NewClient(kgo.SeedBrokers(c.brokers), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	testenv.Must(t, err)
	t.Cleanup(kafka.Close)
	l := &lanesTest{consumer: c, db: c.connect(t), kafka: kafka}
	l.await(t, "the table", "SELECT to_regclass('revenue') IS NOT NULL")
	c.exec(t, `CREATE TABLE history (id bigserial PRIMARY KEY, customer text, total bigint, instance text);
CREATE FUNCTION record_history() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO history (customer, total, instance) VALUES (NEW.customer, NEW.total, current_setting('application_name'));
  RETURN NULL;
END $$;
CREATE TRIGGER history AFTER INSERT OR UPDATE ON revenue FOR EACH ROW EXECUTE FUNCTION record_history()`)
	return l
}

// lock keeps orders of these customers from being added until the transaction ends.
func (l *lanesTest) lock(t *testing.T, customers ...string) pgx.Tx {
	t.Helper()
	for _, name := range customers {
		l.exec(t, "INSERT INTO revenue VALUES ('"+name+"', 0, 0)")
	}
	tx, err := l.connect(t).Begin(t.Context())
	testenv.Must(t, err)
	if _, err := tx.Exec(t.Context(), "SELECT FROM revenue WHERE customer = ANY ($1) FOR UPDATE", customers); err != nil {
		t.Fatal(err)
	}
	return tx
}

// produce publishes orders with totals of 1, 2, 3, ... for each customer, in turn.
func (l *lanesTest) produce(t *testing.T, partition int32, customers ...string) {
	t.Helper()
	var records []*kgo.Record
	for i := range each {
		for _, name := range customers {
			records = append(records, &kgo.Record{
				Topic: l.topic, Partition: partition, Key: []byte(name), Value: fmt.Appendf(nil, `{"total": %d}`, i+1), Headers: orderHeaders(),
			})
		}
	}
	testenv.Must(t, l.kafka.ProduceSync(t.Context(), records...).FirstErr())
}

func orderHeaders() []kgo.RecordHeader {
	return []kgo.RecordHeader{{Key: "ce_source", Value: []byte("/shop")}, {Key: "ce_id", Value: []byte(uuid.NewString())}, {Key: "ce_type", Value: []byte("OrderPlaced")}}
}

// await waits until a query returns true.
func (l *lanesTest) await(t *testing.T, what, query string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cdctest.Patience(time.Minute))
	defer cancel()
	testenv.Must(t, cdctest.Await(ctx, what, func(ctx context.Context) (reached bool, err error) {
		err = l.db.QueryRow(ctx, query).Scan(&reached)
		return reached, err
	}))
}

// awaitCommitted waits for the group's offset. A higher one would lose records.
func (l *lanesTest) awaitCommitted(t *testing.T, partition int32, offset int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cdctest.Patience(time.Minute))
	defer cancel()
	err := cdctest.Await(ctx, fmt.Sprintf("offset %d of partition %d", offset, partition), func(ctx context.Context) (bool, error) {
		all, err := kadm.NewClient(l.kafka).FetchOffsets(ctx, l.topic)
		if err != nil {
			return false, err
		}
		at, ok := all.Lookup(l.topic, partition)
		if ok && at.At > offset {
			cdctest.Violation(t, cdctest.Lost, "offset %d of partition %d is committed, all before %d is handled", at.At, partition, offset)
			return false, errors.New("the offset is too high")
		}
		return ok && at.At == offset, nil
	})
	testenv.Must(t, err)
}

// checkOrder expects each customer's totals in the order of its records.
func (l *lanesTest) checkOrder(t *testing.T) {
	t.Helper()
	rows, err := l.db.Query(t.Context(), "SELECT customer, array_agg(total ORDER BY id) FROM history WHERE total > 0 GROUP BY customer")
	testenv.Must(t, err)
	var customer string
	var totals, want []int64
	for i := range int64(each) {
		want = append(want, (i+1)*(i+2)/2)
	}
	if _, err := pgx.ForEachRow(rows, []any{&customer, &totals}, func() error {
		if fmt.Sprint(totals) != fmt.Sprint(want) {
			cdctest.Violation(t, cdctest.Order, "%s has the totals %v", customer, totals)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
