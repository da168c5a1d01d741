package publisher

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// transactional is a publisher that commits the number of the last batch as its position.
type transactional struct {
	*publisher.Publisher
	last   uint64 // the last batch that was committed
	failed chan error
}

func newTransactional(t *testing.T, k *testenv.KafkaCluster, topic string) *transactional {
	t.Helper()
	newTopic(t, k, topic, 4, nil)
	newTopic(t, k, topic+"-positions", 1, map[string]string{"cleanup.policy": "compact"})
	s := unopened(t, publisher.Options{Kafka: kafka.Options{Brokers: k.Bootstrap()}, PositionTopic: topic + "-positions"})
	return &transactional{Publisher: s.Publisher}
}

// start opens the publisher and finds the last committed position, as a relay does at its start.
func (p *transactional) start(t *testing.T, id string) {
	t.Helper()
	eventually(t, soon, "Open", func() bool {
		p.Kill()
		p.Reset()
		if p.Open(t.Context(), id) != nil {
			return false
		}
		end, err := p.Commit(t.Context(), "barrier", nil)
		if err != nil {
			return false
		}
		value, found, err := p.LastPosition(t.Context(), "position", end)
		if err != nil {
			return false
		}
		if found {
			p.last = number(t, value)
		}
		return true
	})
	p.failed = make(chan error, 1)
}

func number(t *testing.T, value []byte) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(string(value), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// commitEach commits each transaction until ctx ends or the publisher fails.
func (p *transactional) commitEach(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-p.Durable():
			err := d.Err
			if d.Cut {
				_, err = p.Commit(ctx, "position", []byte(strconv.FormatUint(d.Last, 10)))
			}
			if err != nil {
				p.failed <- err
				return
			}
		}
	}
}

// TestTransactions kills a publisher again and again, in whatever phase it is, and starts it at the position that Kafka
// holds. Consumers of committed records get each message once and in order.
func TestTransactions(t *testing.T) {
	const batches, each, keys = 400, 10, 7
	p := newTransactional(t, shared, "transactions")
	var kills int
	lives, before := 60*time.Millisecond, uint64(0)
	for p.start(t, "cdc-relay.transactions"); p.last < batches; p.start(t, "cdc-relay.transactions") {
		if p.last == before { // a busy machine may commit nothing for long
			lives += 5 * time.Millisecond
		}
		before = p.last
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(lives))
		committing := make(chan struct{})
		go func() { p.commitEach(ctx); close(committing) }()
		for seq := p.last + 1; seq <= batches && ctx.Err() == nil; seq++ {
			msgs := numbered("transactions", int(seq-1)*each, each, keys)
			_ = p.Send(ctx, &cdc.Routed{Batch: &cdc.Batch{Seq: seq}, Messages: msgs})
		}
		<-ctx.Done()
		p.Kill()
		<-committing
		cancel()
		kills++
		select {
		case err := <-p.failed:
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, publisher.ErrKilled) {
				t.Fatal(err)
			}
		default:
		}
	}
	t.Logf("%d kills", kills)
	seen := newOrder(keys)
	readCommitted(t, shared.Bootstrap(), "transactions", func(r *kgo.Record) bool {
		seen.check(t, r)
		return len(seen.seen) == batches*each
	})
	seen.once(t)
}

// readCommitted reads the committed records of a topic until done returns true.
func readCommitted(t *testing.T, addrs []string, topic string, done func(*kgo.Record) bool) {
	t.Helper()
	readAll(t, addrs, topic, done, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
}
