package publisher_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// A new producer ID is requested only when no batch is in flight: later batches would be sent with it and overtake that
// batch.
func TestNewProducerIDWaitsForBatchesInFlight(t *testing.T) {
	for _, id := range []string{kafka.TransactionalAuto, kafka.TransactionalNone} {
		t.Run(id, func(t *testing.T) {
			c := newCluster(t, 2, 2)
			for broker := range int32(2) {
				testenv.Must(t, c.MoveTopicPartition("t", broker, broker))
			}
			opts := options(c)
			opts.TransactionalID, opts.Kafka.RequestTimeout = id, time.Minute
			s := open(t, opts)
			s.send(t, numbered(0, 40, 20)...) // both brokers have a connection
			s.answered(t, 1)
			var held, early atomic.Bool
			var asked, produced atomic.Int32
			release := make(chan struct{})
			c.ControlKey(int16(kmsg.InitProducerID), func(kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				asked.Add(1)
				early.Store(early.Load() || held.Load())
				return nil, nil, false
			})
			c.ControlKey(produceKey, func(req kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				switch produced.Add(1) {
				case 1: // of the broker that is asked first
					held.Store(true)
					c.SleepControl(func() { <-release })
				case 2: // of the other
					return answer(req, kerr.OutOfOrderSequenceNumber.Code), nil, true
				}
				return nil, nil, false
			})
			s.send(t, numbered(40, 40, 20)...)
			eventually(t, "the refusal of one broker", func() bool { return metric(t, s.reg, "cdc_relay_publish_errors_total") > 0 })
			<-time.After(100 * time.Millisecond) // long enough for one that does not wait to ask
			held.Store(false)
			close(release)
			s.answered(t, 2)
			if early.Load() || asked.Load() != 1 {
				t.Errorf("requested a new producer ID %d times, while a batch was in flight: %t", asked.Load(), early.Load())
			}
			inOrder(t, c.ListenAddrs(), 80, 20)
		})
	}
}

// A fence that cannot be renewed is still valid: publishing continues with it and does not wait for a response.
func TestRoutineRenewalFails(t *testing.T) {
	for name, fault := range map[string]kfake.Fault{
		"no coordinator":            {Keys: []kmsg.Key{kmsg.FindCoordinator}, Err: kerr.CoordinatorNotAvailable},
		"the answer before is lost": {Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.ProducerFenced},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 2, 4)
			opts := options(c)
			opts.Timing.RenewInterval = 10 * time.Millisecond
			s := open(t, opts)
			w := watch(c)
			fault.TopLevel, fault.Count = true, -1
			f := c.Fault(fault)
			rounds := 0
			round := func() {
				s.send(t, numbered(rounds*40, 40, 9)...)
				rounds++
				s.answered(t, uint64(rounds))
			}
			for rounds == 0 || f.Hits() < 3 {
				round()
			}
			if ids := w.sequences(t); len(ids) > 2 { // one was handed out before the fault, perhaps
				t.Errorf("producer IDs %v while none could be had", ids)
			}
			f.Remove()
			for len(w.sequences(t)) < 4 {
				round()
			}
			inOrder(t, c.ListenAddrs(), rounds*40, 9)
			ends, err := admin(t, c.ListenAddrs()).ListEndOffsets(t.Context(), "t")
			testenv.Must(t, errors.Join(err, ends.Error()))
			var n int64
			ends.Each(func(end kadm.ListedOffset) { n += end.Offset })
			if n != int64(rounds*40) {
				cdctest.Violation(t, cdctest.Duplicates, "%d records of %d messages", n, rounds*40)
			}
		})
	}
}

// Publishing does not wait for a renewal without an answer. Each of the brokers is asked for the coordinator, for five seconds:
// publishing that waits takes longer than a test does.
func TestRoutineRenewalHangs(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(release) }) // after the cluster's end: kfake may deadlock if a control wakes up just before it
	c := newCluster(t, 20, 4)
	opts := options(c)
	opts.Timing.RenewInterval, opts.Kafka.RequestTimeout = 50*time.Millisecond, time.Hour
	s := open(t, opts)
	var once sync.Once
	c.ControlKey(int16(kmsg.FindCoordinator), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		once.Do(func() { close(asked) })
		c.SleepControl(func() { <-release })
		return nil, nil, false
	})
	s.send(t, numbered(0, 40, 9)...)
	<-asked
	for i := range 20 {
		s.send(t, numbered((i+1)*40, 40, 9)...)
		s.answered(t, uint64(i+2))
	}
}
