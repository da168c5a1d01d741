package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/kgoinbox"
	"github.com/cdc-relay/cdc-relay/inbox/parking"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
)

// consumption is a topic and its consumers in this process.
type consumption struct {
	*database

	t     testing.TB
	topic string
	dsn   string
	admin *kgo.Client
	log   testenv.Log
}

var topics atomic.Int64

func newConsumption(tb testing.TB, db *database, partitions int) *consumption {
	tb.Helper()
	c := &consumption{database: db, t: tb, topic: fmt.Sprintf("t%d", topics.Add(1)), dsn: db.dsn()}
	var err error
	c.admin, err = kgo.NewClient(kgo.SeedBrokers(kafka.Bootstrap()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	testenv.Must(tb, err)
	tb.Cleanup(c.admin.Close)
	if partitions > 0 {
		testenv.Must(tb, kafka.CreateTopic(tb.Context(), c.topic, partitions, nil))
	}
	return c
}

// start starts a consumer. stop ends it and returns what Run returned; ended is closed when it has.
func (c *consumption) start(h inbox.Handler[*sql.Tx], change func(*kgoinbox.Config), opts ...inbox.Option) (stop func() error, ended <-chan struct{}) {
	c.t.Helper()
	pool, err := sql.Open(driver(c.dialect), c.dsn)
	testenv.Must(c.t, err)
	c.t.Cleanup(func() { _ = pool.Close() })
	in, err := inbox.New(writer.SQL(pool, c.dialect), "c", opts...)
	testenv.Must(c.t, err)
	var handlers inbox.Registry[*sql.Tx]
	handlers.Default(h)
	config := kgoinbox.Config{
		Client:  []kgo.Opt{kgo.SeedBrokers(kafka.Bootstrap()...), kgo.ConsumerGroup(c.topic), kgo.ConsumeTopics(c.topic), kgo.MetadataMinAge(50 * time.Millisecond)},
		Backoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond, CommitInterval: 20 * time.Millisecond, RetryInterval: 20 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(&c.log, nil)),
	}
	if change != nil {
		change(&config)
	}
	consumer, err := kgoinbox.New(in, &handlers, config)
	testenv.Must(c.t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = consumer.Run(ctx)
	}()
	stop = func() error {
		cancel()
		<-done
		return err
	}
	c.t.Cleanup(func() { _ = stop() })
	return stop, done
}

// sent is the record of a message.
func sent(topic string, partition int32, key, id string, value []byte) *kgo.Record {
	return &kgo.Record{Topic: topic, Partition: partition, Key: []byte(key), Value: value, Headers: []kgo.RecordHeader{
		{Key: "ce_source", Value: []byte("/s")}, {Key: "ce_id", Value: []byte(id)},
	}}
}

// send publishes one record for each "key id".
func (c *consumption) send(partition int32, messages ...string) {
	c.t.Helper()
	records := make([]*kgo.Record, len(messages))
	for i, m := range messages {
		key, id, _ := strings.Cut(m, " ")
		records[i] = sent(c.topic, partition, key, id, nil)
	}
	testenv.Must(c.t, c.admin.ProduceSync(c.t.Context(), records...).FirstErr())
}

// committed is the group's offset of a partition, -1 if there is none.
func (c *consumption) committed(partition int32) int64 {
	c.t.Helper()
	var all kadm.OffsetResponses
	c.await("Kafka answers", func() (ok bool) { // a broker that has just started may not know the group's coordinator
		var err error
		all, err = kadm.NewClient(c.admin).FetchOffsets(c.t.Context(), c.topic)
		return err == nil
	})
	if o, ok := all.Lookup(c.topic, partition); ok {
		return o.At
	}
	return -1
}

// await waits until a condition holds.
func (c *consumption) await(what string, holds func() bool) {
	c.t.Helper()
	deadline := time.Now().Add(cdctest.Patience(time.Minute))
	for tick := time.NewTicker(5 * time.Millisecond); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			c.t.Fatalf("not in time: %s\n%s", what, c.log.String())
		}
	}
}

// effect is a handler that adds a row.
func effect(ctx context.Context, tx *sql.Tx, _ *writer.Unit, m *inbox.Message) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES ('"+m.ID+"')")
	return err
}

// seen records what an observer sees.
type seen struct {
	mu       sync.Mutex
	outcomes []string
	full     int
	outages  int
	inFlight int // the most
	now      int
}

func (s *seen) Handled(m *inbox.Message, o kgoinbox.Outcome, _ time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(err, parking.ErrFull):
		s.full++
	case errors.Is(err, inbox.ErrDatabase):
		s.outages++
	default:
		s.outcomes = append(s.outcomes, fmt.Sprintf("%s %s %d %v", m.ID, o, m.Attempt, err))
	}
}

func (s *seen) InFlight(_ string, _ int32, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight, s.now = max(s.inFlight, n), n
}

func (s *seen) get(what func(*seen) int) func() int {
	return func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return what(s)
	}
}
