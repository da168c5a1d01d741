package publisher

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// A renewal of the fence under load causes no duplicates, and the new fence works.
func TestFenceRenewalUnderLoad(t *testing.T) {
	newTopic(t, shared, "renewed", 4, nil)
	opts := publisher.Options{Kafka: kafka.Options{Brokers: shared.Bootstrap()}, TransactionalID: "renewed", Timing: publisher.Timing{RenewInterval: 20 * time.Millisecond}}
	s := open(t, opts)
	n := 0
	epochs := map[int16]bool{}
	o := newOrder(13)
	for len(epochs) < 5 {
		for range 10 {
			s.send(t, numbered("renewed", n*10, 10, 13)...)
			n++
		}
		durable(t, s, n)
		o, epochs = newOrder(13), map[int16]bool{}
		readAll(t, shared.Bootstrap(), "renewed", func(r *kgo.Record) bool {
			o.check(t, r)
			epochs[r.ProducerEpoch] = true
			return len(o.seen) == n*10
		})
	}
	o.once(t)
	second := open(t, opts)
	second.send(t, numbered("renewed", n*10, 40, 13)...)
	durable(t, second, 1)
	s.send(t, numbered("renewed", n*10+40, 40, 13)...)
	fenced(t, s.await(t, soon, n+1))
}

func durable(t *testing.T, s *sink, batches int) {
	t.Helper()
	testenv.Must(t, s.await(t, soon, batches))
}

// fenced verifies the error of a publisher that sent a batch after its successor did.
func fenced(t *testing.T, err error) {
	t.Helper()
	var stop *cdc.StopError
	switch {
	case err == nil:
		cdctest.Violation(t, cdctest.Order, "a batch of a fenced publisher was acknowledged")
	case !errors.As(err, &stop) || stop.Class != cdc.ClassFenced:
		t.Errorf("%v, want an error of a fenced publisher", err)
	default:
		t.Log(err)
	}
}
