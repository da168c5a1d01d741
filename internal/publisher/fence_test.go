package publisher_test

import (
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// coordinator hands out producer epochs as Kafka does (org.apache.kafka.coordinator.transaction.TransactionMetadata,
// prepareIncrementProducerEpoch); kfake grants what Kafka refuses.
type coordinator struct {
	mu      sync.Mutex
	current producerID
	last    int16 // the epoch before current, where a renewal was granted: it may be asked again; -1: none
	// lose has the next answer lost, and another coordinator take over, which does not know last.
	lose bool
	// lost is called with every renewal, which has no answer then; nil: it has.
	lost func(asks producerID)
	// between is called once, after a question of a publisher that opens.
	between func()
	asked   []string // the transactional ID of each question, or ""
}

const coordinated = 1000

func coordinate(c *kfake.Cluster) *coordinator {
	k := &coordinator{current: producerID{coordinated, -1}, last: -1}
	c.ControlKey(int16(kmsg.InitProducerID), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		r := req.(*kmsg.InitProducerIDRequest)
		name := ""
		if r.TransactionalID != nil {
			name = *r.TransactionalID
		}
		k.change(func() { k.asked = append(k.asked, name) })
		if name == "" {
			return nil, nil, false
		}
		res := r.ResponseKind().(*kmsg.InitProducerIDResponse)
		res.Version = r.Version
		asks := producerID{r.ProducerID, r.ProducerEpoch}
		if lost := k.losing(asks); lost != nil {
			lost(asks)
			return nil, net.ErrClosed, true
		}
		id, err := k.grant(asks)
		if err != nil {
			res.ErrorCode = err.Code
		}
		res.ProducerID, res.ProducerEpoch = id.id, id.epoch
		if k.answerLost() {
			return nil, net.ErrClosed, true
		}
		if between := k.next(); between != nil {
			between()
		}
		return res, nil, true
	})
	return k
}

func (k *coordinator) grant(asks producerID) (producerID, *kerr.Error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case asks.id < 0:
		k.current.epoch, k.last = k.current.epoch+1, -1
	case asks == k.current:
		k.current.epoch, k.last = k.current.epoch+1, k.current.epoch
	case asks.id != k.current.id || k.last < 0 || asks.epoch != k.last:
		return producerID{-1, -1}, kerr.ProducerFenced
	}
	return k.current, nil
}

func (k *coordinator) answerLost() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	lost := k.lose
	if lost {
		k.lose, k.last = false, -1
	}
	return lost
}

func (k *coordinator) losing(asks producerID) func(producerID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if asks.id < 0 {
		return nil
	}
	return k.lost
}

// loseRenewals has renewals granted or not, and never answered; the channel is closed with the first of them.
func (k *coordinator) loseRenewals(granted bool) <-chan struct{} {
	asked := make(chan struct{})
	var once sync.Once
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lost = func(asks producerID) {
		if granted {
			_, _ = k.grant(asks)
		}
		once.Do(func() { close(asked) })
	}
	return asked
}

func (k *coordinator) next() func() {
	k.mu.Lock()
	defer k.mu.Unlock()
	between := k.between
	k.between = nil
	return between
}

// change sets what a test decides.
func (k *coordinator) change(set func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	set()
}

func (k *coordinator) loseNext() { k.change(func() { k.lose = true }) }

func (k *coordinator) at() producerID {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current
}

// A replaced transactional ID is fenced if it was in use: not where the configuration gave another or none.
func TestReplacedTransactionalIDIsFenced(t *testing.T) {
	for setting, want := range map[string][]string{
		"auto": {"old", "old", "derived", "derived"}, "own": {"old", "old", "own", "own"}, "none": {""},
	} {
		t.Run(setting, func(t *testing.T) {
			c := newCluster(t, 1, 1)
			k, o := coordinate(c), options(c)
			o.TransactionalID = setting
			testenv.Must(t, unopened(t, o).Open(t.Context(), "derived", "old"))
			if !slices.Equal(k.asked, want) {
				t.Errorf("asked for %q, want %q", k.asked, want)
			}
		})
	}
}

// The answer to a renewal is lost, and a successor was opened, whether the lost question was granted or not: the successor wins.
func TestSuccessorAfterLostRenewal(t *testing.T) {
	for name, granted := range map[string]bool{"granted": true, "not granted": false} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 1, 1)
			k := coordinate(c)
			first := open(t, options(c))
			first.answered(t, first.send(t, msg("k", "0")))
			asked := k.loseRenewals(granted)
			c.Fault(onProduce(kerr.OutOfOrderSequenceNumber, 1))
			first.send(t, msg("k", "1"))
			<-asked
			second := open(t, options(c))
			k.change(func() { k.lost = nil })
			var stop *cdc.StopError
			if err := first.failed(t); !errors.As(err, &stop) || stop.Class != cdc.ClassFenced || !strings.HasPrefix(stop.Fix, "restart this relay") {
				t.Errorf("the first ended with %s", cdc.Explain(err))
			}
			has := k.at()
			second.answered(t, second.send(t, msg("k", "2")))
			if k.at() != has {
				t.Error("the successor had to renew")
			}
		})
	}
}

// Once a publisher is open, no renewal from an earlier epoch, or from the one after it, is granted, whatever request came
// between its own two.
func TestRequestBetweenTwoOfOpen(t *testing.T) {
	for name, asks := range map[string]func(before producerID) producerID{
		"a renewal":                              func(before producerID) producerID { return before },
		"a renewal of one whose answer was lost": func(before producerID) producerID { return producerID{before.id, before.epoch + 1} },
		"another that opens":                     func(producerID) producerID { return producerID{-1, -1} },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 1, 1)
			k := coordinate(c)
			open(t, options(c))
			held := []producerID{k.at()}
			k.change(func() {
				k.between = func() {
					if id, err := k.grant(asks(held[0])); err == nil {
						held = append(held, id)
					}
				}
			})
			open(t, options(c))
			for _, id := range held {
				for _, from := range []producerID{id, {id.id, id.epoch + 1}} {
					if got, err := k.grant(from); err == nil {
						t.Errorf("asked from %v: granted %v", from, got)
					}
				}
			}
		})
	}
}

// Fenced tells a publisher whether another one was opened, and leaves the other one alone. It does not take a lost answer for one, nor
// no answer.
func TestFencedByASuccessor(t *testing.T) {
	for name, tt := range map[string]struct {
		id    string
		begin func(t *testing.T, c *kfake.Cluster, k *coordinator)
		want  bool
	}{
		"alone": {"relay", func(*testing.T, *kfake.Cluster, *coordinator) {}, false},
		"a successor that has ended": {"relay", func(t *testing.T, c *kfake.Cluster, _ *coordinator) {
			open(t, options(c)).Kill()
		}, true},
		"a lost answer":     {"relay", func(_ *testing.T, _ *kfake.Cluster, k *coordinator) { k.loseNext() }, false},
		"without the fence": {kafka.TransactionalNone, func(*testing.T, *kfake.Cluster, *coordinator) {}, false},
		"Kafka away":        {"relay", func(_ *testing.T, c *kfake.Cluster, _ *coordinator) { c.Close() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 1, 1)
			k := coordinate(c)
			o := options(c)
			o.TransactionalID = tt.id
			s := open(t, o)
			tt.begin(t, c, k)
			before := k.at()
			if got := s.Fenced(t.Context()); got != tt.want {
				t.Errorf("fenced: %v", got)
			}
			switch {
			case tt.want && k.at() != before:
				t.Error("the question has fenced the successor")
			case !tt.want && name != "Kafka away":
				s.answered(t, s.send(t, msg("k", "0")))
			}
		})
	}
}
