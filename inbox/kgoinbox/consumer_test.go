package kgoinbox

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/writer"
)

// uncomparable is an error that == panics for.
type uncomparable []error

func (uncomparable) Error() string { return "stop" }

// franz-go tries for ever to reach a broker, and says nothing. The end of Run's context is no failure, whatever ended it.
func TestBrokerThatCannotBeReached(t *testing.T) {
	var config net.ListenConfig
	silent, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	closed, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	must(t, closed.Close())
	for name, c := range map[string]struct {
		addr   string
		opts   []kgo.Opt
		reason string
	}{
		"refused":        {addr: closed.Addr().String(), reason: "connection refused"},
		"silent":         {addr: silent.Addr().String(), reason: "no answer within 4s"},
		"silent for TLS": {addr: silent.Addr().String(), opts: []kgo.Opt{kgo.DialTLSConfig(&tls.Config{MinVersion: tls.VersionTLS12})}, reason: "no answer within 4s"},
		"unknown host":   {addr: "kafka.invalid:9092", reason: "kafka.invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			consumer, log := newFake(t, &fakeDB{}, Config{Client: append(c.opts, kgo.SeedBrokers(c.addr), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("orders"))}, nil)
			ctx, cancel := context.WithCancelCause(t.Context())
			done := make(chan error)
			go func() { done <- consumer.Run(ctx) }()
			deadline := time.Now().Add(time.Minute)
			for tick := time.NewTicker(5 * time.Millisecond); !strings.Contains(log.String(), noBroker); <-tick.C {
				if time.Now().After(deadline) {
					t.Fatalf("not in time: %s", log)
				}
			}
			cancel(uncomparable{errors.New("stop")})
			must(t, <-done)
			if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, c.addr) || !strings.Contains(text, c.reason) {
				t.Error(text)
			}
		})
	}
}

func TestDeadlineIsNoFailure(t *testing.T) {
	consumer, log := newFake(t, &fakeDB{}, Config{Client: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1"), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("orders")}}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := consumer.Run(ctx); err != nil || strings.Contains(log.String(), fetchFails) {
		t.Errorf("%v\n%s", err, log)
	}
}

// An outage that is the fault of one message, such as one of another server, does not stop the others: its pauses grow.
func TestOutageOfOneMessage(t *testing.T) {
	for _, parked := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			db, tries, others := &fakeDB{}, 0, 0
			if parked {
				db.park(t, message(0))
			}
			consumer, log := newFake(t, db, Config{Workers: 1}, func(_ context.Context, _ *fakeTx, _ *writer.Unit, m *inbox.Message) error {
				if m.Offset > 0 {
					others++
					return nil
				}
				tries++
				if parked { // as the rollback does
					db.park(t, m)
				}
				return sqlState("53200")
			})
			p, _ := newFakePartition(t, consumer)
			if !parked {
				p.hold(message(0))
			}
			for offset := range int64(1200) {
				p.hold(message(offset + 1))
				<-time.After(time.Second)
			}
			synctest.Wait()
			if tries < 40 || tries > 90 || others < 1199 { // the last pauses are of 15 to 30 s
				t.Errorf("parked %v: %d tries, %d others in 20 minutes\n%s", parked, tries, others, log)
			}
			must(t, p.stop(t.Context()))
		})
	}
}
