package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	process "os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/kgoinbox"
	"github.com/cdc-relay/cdc-relay/inbox/parking"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
)

// The consumer processes of a test are this test binary with these variables.
const (
	childTopic   = "CONSUMER_TEST_TOPIC"
	childBrokers = "CONSUMER_TEST_BROKERS"
	childDSN     = "CONSUMER_TEST_DSN"
	childDialect = "CONSUMER_TEST_DIALECT"
	childBatch   = "CONSUMER_TEST_BATCH"
)

const (
	chains  = 12 // keys
	perLink = 5  // messages of each key in a round
)

// consume is a consumer process. Its handler fails for 5 % of the attempts.
func consume() error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	if _, err := os.Stdout.WriteString("ready\n"); err != nil {
		return err
	}
	dialect, err := strconv.Atoi(os.Getenv(childDialect))
	if err != nil {
		return err
	}
	batch, err := strconv.Atoi(os.Getenv(childBatch))
	if err != nil {
		return err
	}
	db, err := sql.Open(driver(writer.Dialect(dialect)), os.Getenv(childDSN))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	events, err := writer.New(writer.Dialect(dialect))
	if err != nil {
		return err
	}
	in, err := inbox.New(writer.SQL(db, events.Dialect()), "chains", inbox.WithWriter(events))
	if err != nil {
		return err
	}
	var handlers inbox.Registry[*sql.Tx]
	handlers.Default(link(5))
	c, err := kgoinbox.New(in, &handlers, kgoinbox.Config{
		Client: []kgo.Opt{
			kgo.SeedBrokers(strings.Split(os.Getenv(childBrokers), ",")...), kgo.ConsumerGroup(os.Getenv(childTopic)), kgo.ConsumeTopics(os.Getenv(childTopic)),
			kgo.SessionTimeout(2 * time.Second), kgo.HeartbeatInterval(200 * time.Millisecond),
		},
		Workers: 4, Batch: batch, Attempts: 2, Backoff: time.Millisecond, MaxBackoff: 2 * time.Second, CommitInterval: 50 * time.Millisecond, RetryInterval: 100 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

// link adds messages to the chains of their keys, with an event for each, and a row to effects if a message is not the next one. It fails for so many percent
// of the attempts.
func link(percent int) inbox.Handler[*sql.Tx] {
	return func(ctx context.Context, tx *sql.Tx, u *writer.Unit, m *inbox.Message) error {
		if rand.IntN(100) < percent {
			return inbox.Permanent(errors.New("one of those that fail"))
		}
		n := string(m.Value)
		r, err := tx.ExecContext(ctx, "UPDATE chains SET n = "+n+" WHERE k = '"+string(m.Key)+"' AND n = "+n+" - 1")
		if err != nil {
			return err
		}
		if linked, err := r.RowsAffected(); err != nil || linked == 1 {
			u.Add(raised(m))
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO effects VALUES ('"+m.ID+" is not the next one')")
		return err
	}
}

// fleet are two consumer processes. The second one handles batches.
type fleet struct {
	t       *testing.T
	env     []string
	members [2]*process.Cmd
	logs    [2]testenv.Log
}

func (f *fleet) start(i int) {
	f.t.Helper()
	exe, err := os.Executable()
	testenv.Must(f.t, err)
	c := process.CommandContext(context.WithoutCancel(f.t.Context()), exe)
	c.Env, c.Stderr = append(append(os.Environ(), f.env...), childBatch+"="+strconv.Itoa(20*i)), &f.logs[i]
	out, err := c.StdoutPipe()
	testenv.Must(f.t, err)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	testenv.Must(f.t, c.Start())
	f.members[i] = c
	_, err = io.ReadFull(out, make([]byte, len("ready\n"))) // now it ends itself at SIGTERM
	testenv.Must(f.t, err)
}

// end ends a process by a signal.
func (f *fleet) end(i int, s os.Signal) error {
	return errors.Join(f.members[i].Process.Signal(syscall.SIGCONT), f.members[i].Process.Signal(s), f.members[i].Wait())
}

// replace asks a process to stop and starts another one.
func (f *fleet) replace(i int) {
	f.t.Helper()
	if err := f.end(i, syscall.SIGTERM); err != nil {
		f.t.Errorf("a consumer that was asked to stop: %v", err)
	}
	f.start(i)
}

// consumeRounds publishes messages and meanwhile calls fault, in each round.
func consumeRounds(t *testing.T, db *database, rounds int, fault func(f *fleet, client *kgo.Client, group string)) {
	t.Helper()
	topic := db.name
	producer, _ := newChains(t, db, topic)
	f := &fleet{t: t, env: []string{childTopic + "=" + topic, childBrokers + "=" + strings.Join(kafka.Bootstrap(), ","), childDSN + "=" + db.dsn(), childDialect + "=" + strconv.Itoa(int(db.dialect))}}
	for i := range f.members {
		f.start(i)
	}
	t.Cleanup(func() {
		for i := range f.members {
			_ = f.end(i, syscall.SIGKILL)
			if t.Failed() {
				t.Logf("consumer %d:\n%s", i, f.logs[i].String())
			}
		}
	})
	p := newParked(t, writer.SQL(db.conn, db.dialect), "chains")
	for round := range rounds {
		publish(t, producer, round)
		if fault(f, producer, topic); !settle(t, p, db, round+1) {
			return
		}
	}
	for i := range f.members {
		f.replace(i)
	}
	allRecorded(t, db, rounds)
}

// newChains makes the topic and the tables, and returns a client that publishes to the topic, and what an inbox needs for link.
func newChains(t *testing.T, db *database, topic string) (*kgo.Client, inbox.Option) {
	t.Helper()
	testenv.Must(t, kafka.CreateTopic(t.Context(), topic, 4, nil))
	option := db.withOutbox(t)
	db.exec(t, "CREATE TABLE chains (k varchar(10) PRIMARY KEY, n int NOT NULL)")
	for k := range chains {
		db.exec(t, fmt.Sprintf("INSERT INTO chains VALUES ('k%d', 0)", k))
	}
	producer, err := kgo.NewClient(kgo.SeedBrokers(kafka.Bootstrap()...), kgo.DefaultProduceTopic(topic))
	testenv.Must(t, err)
	t.Cleanup(producer.Close)
	return producer, option
}

// settle retries what is parked until all messages of the rounds have had their effects and none is parked.
func settle(t *testing.T, p parked[*sql.Tx], db *database, rounds int) bool {
	t.Helper()
	deadline := time.Now().Add(cdctest.Patience(2 * time.Minute))
	done := func() bool {
		return db.count(t, fmt.Sprintf("chains WHERE n < %d", rounds*perLink)) == 0 && db.count(t, "inbox_parked") == 0
	}
	for tick := time.NewTicker(20 * time.Millisecond); !done() && db.count(t, "effects") == 0; <-tick.C {
		_, err := p.Retry(t.Context(), parking.Filter{})
		testenv.Must(t, err)
		if time.Now().After(deadline) {
			t.Fatalf("not settled: %d are parked", db.count(t, "inbox_parked"))
		}
	}
	if n := db.count(t, "effects"); n > 0 {
		cdctest.Violation(t, cdctest.Order, "%d messages are repeated or out of order", n)
	}
	return !t.Failed()
}

func allRecorded(t *testing.T, db *database, rounds int) {
	t.Helper()
	if n, want := db.count(t, "inbox"), rounds*chains*perLink; n != want {
		cdctest.Violation(t, cdctest.Lost, "%d messages are recorded, want %d", n, want)
	}
	if n := db.count(t, "outbox"); n != rounds*chains*perLink {
		cdctest.Violation(t, kindOf(n/(rounds*chains*perLink)), "%d events are raised, want %d", n, rounds*chains*perLink)
	}
}

// publish publishes the messages of a round, twice.
func publish(t *testing.T, producer *kgo.Client, round int) {
	t.Helper()
	var all errgroup.Group
	for k := range chains {
		all.Go(func() error {
			var records []*kgo.Record
			for range 2 {
				for i := range perLink {
					n := strconv.Itoa(round*perLink + i + 1)
					key := fmt.Sprintf("k%d", k)
					records = append(records, &kgo.Record{Key: []byte(key), Value: []byte(n), Headers: []kgo.RecordHeader{
						{Key: "ce_source", Value: []byte("/chains")}, {Key: "ce_id", Value: []byte(key + "-" + n)},
					}})
				}
			}
			return producer.ProduceSync(t.Context(), records...).FirstErr()
		})
	}
	testenv.Must(t, all.Wait())
}
