package publisher

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// The response to a renewal is lost and its coordinator fails: the next renewal succeeds too, and a publisher that has a
// successor is fenced by the same coordinator.
func TestFenceRenewalAfterLostResponse(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t, testenv.KafkaOptions{Settings: map[string]string{"broker.session.timeout.ms": "3000"}}) // it is killed
	newTopic(t, k, "across", 1, nil)
	const interval = 12 * time.Second
	opts := func(id string) publisher.Options {
		return publisher.Options{Kafka: kafka.Options{Brokers: k.Bootstrap()}, TransactionalID: id, Timing: publisher.Timing{RenewInterval: interval}}
	}
	alone, first := open(t, opts("alone")), open(t, opts("succeeded"))
	alone.send(t, numbered("across", 0, 1, 1)...)
	durable(t, alone, 1)
	r := newest(t, k, "across", 0)
	first.send(t, numbered("across", 1, 1, 1)...)
	durable(t, first, 1)
	id, epoch := renewBeside(t, k, "alone", r)
	second := open(t, opts("succeeded"))
	second.send(t, numbered("across", 2, 1, 1)...)
	durable(t, second, 1)
	b := k.Brokers()[0]
	b.Kill()
	cdctest.Eventually(t, soon, "renewals that are due and fail", func() bool {
		return strings.Contains(alone.log.String(), "fencing in Kafka not renewed") && strings.Contains(first.log.String(), "fencing in Kafka not renewed")
	})
	testenv.Must(t, b.Start(t.Context()))
	testenv.Must(t, k.AwaitHealthy(t.Context()))
	n := 3
	cdctest.Eventually(t, soon, "a newer epoch", func() bool {
		alone.send(t, numbered("across", n, 1, 1)...)
		durable(t, alone, n-1)
		r := newest(t, k, "across", n)
		n++
		return r.ProducerID == id && r.ProducerEpoch > epoch
	})
	first.send(t, numbered("across", n, 1, 1)...)
	fenced(t, first.await(t, soon, 2))
	second.send(t, numbered("across", n+1, 1, 1)...)
	durable(t, second, 2)
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

// newest returns the record with the value n.
func newest(t *testing.T, k *testenv.KafkaCluster, topic string, n int) *kgo.Record {
	t.Helper()
	var found *kgo.Record
	readAll(t, k.Bootstrap(), topic, func(r *kgo.Record) bool {
		found = r
		return bytes.Equal(r.Value, numbered(topic, n, 1, 1)[0].Value)
	})
	return found
}

// renewBeside renews the fence as the publisher that wrote r would, whose response is then lost.
func renewBeside(t *testing.T, k *testenv.KafkaCluster, transactional string, r *kgo.Record) (id int64, epoch int16) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(k.Bootstrap()...))
	testenv.Must(t, err)
	defer cl.Close()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &transactional, 10_000
	req.ProducerID, req.ProducerEpoch = r.ProducerID, r.ProducerEpoch
	res, err := req.RequestWith(t.Context(), cl)
	if err == nil {
		err = kerr.ErrorForCode(res.ErrorCode)
	}
	testenv.Must(t, err)
	return res.ProducerID, res.ProducerEpoch
}
