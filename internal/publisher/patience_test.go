package publisher_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
)

// settable is a clock that runs and can be put forward.
type settable struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *settable) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *settable) forward(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += by
}

// everyAnswer has what reactionTo does for each error code, as seen from outside.
var everyAnswer = []struct {
	err *kerr.Error
	// once is what a single answer of the kind does, repeated what one does that is given for longer than the
	// patience: "": the batch is sent again; else the reason of the stop or of the drop.
	once, repeated string
}{
	{kerr.NotEnoughReplicas, "", ""},
	{kerr.RequestTimedOut, "", ""},
	{kerr.NotLeaderForPartition, "", ""},
	{kerr.KafkaStorageError, "", ""},
	{kerr.UnknownTopicOrPartition, "", ""}, // metadata knows the topic
	{kerr.TopicAuthorizationFailed, "", "topic_denied"},
	{kerr.ClusterAuthorizationFailed, "", "topic_denied"},
	{kerr.InvalidTimestamp, "", "clock"},
	{kerr.UnknownServerError, "", "rejected"},
	{kerr.CorruptMessage, "", "rejected"},
	{kerr.InvalidRecord, "rejected", "rejected"},
	{kerr.PolicyViolation, "rejected", "rejected"},
	{kerr.MessageTooLarge, "too_large", "too_large"},
	{kerr.OutOfOrderSequenceNumber, "", ""}, // a new producer id
}

// dropEverything sets the policies so that an error code that is acted on shows as a dropped event.
func dropEverything(o *publisher.Options) {
	o.UnknownTopic, o.TooLarge, o.Rejected = cdc.PolicyDrop, cdc.PolicyDrop, cdc.PolicyDrop
}

// trial is one answer under one policy, on a publisher that has published one event.
type trial struct {
	*testing.T

	cluster        *kfake.Cluster
	sink           *sink
	clock          *settable
	policy         cdc.Policy
	err            *kerr.Error
	once, repeated string
}

func onEveryAnswer(t *testing.T, test func(tr *trial)) {
	t.Helper()
	for _, policy := range []cdc.Policy{cdc.PolicyStop, cdc.PolicyDrop} {
		for _, answer := range everyAnswer {
			t.Run(fmt.Sprintf("%s/%s", answer.err.Message, policy), func(t *testing.T) {
				c := newCluster(t, 1, 1)
				opts, clock := options(c), settable{}
				opts.Timing.Now, opts.Timing.Patience = clock.now, time.Hour
				if policy == cdc.PolicyDrop {
					dropEverything(&opts)
				}
				s := open(t, opts)
				s.answered(t, s.send(t, msg("k", "0")))
				test(&trial{t, c, s, &clock, policy, answer.err, answer.once, answer.repeated})
			})
		}
	}
}

// The patience starts with the first response of an error code, and not with an earlier error.
func TestOneAnswerAfterAnOutage(t *testing.T) {
	onEveryAnswer(t, func(tr *trial) {
		outage := tr.cluster.Fault(onProduce(kerr.ReplicaNotAvailable, -1))
		tr.sink.send(tr.T, msg("k", "1"))
		eventually(tr.T, "the outage", func() bool { return outage.Hits() > 1 })
		tr.clock.forward(2 * time.Hour)
		more := outage.Hits()
		eventually(tr.T, "more of the outage", func() bool { return outage.Hits() > more+1 })
		one := tr.cluster.Fault(onProduce(tr.err, 1))
		outage.Remove()
		expect(tr.T, tr.sink, tr.policy, tr.once)
		if one.Hits() != 1 {
			tr.Errorf("%d answers of the other kind", one.Hits())
		}
	})
}

// An error code that is repeated for longer than the patience is acted on.
func TestRepeatedAnswer(t *testing.T) {
	onEveryAnswer(t, func(tr *trial) {
		lasting := tr.cluster.Fault(onProduce(tr.err, -1))
		tr.sink.send(tr.T, msg("k", "1"))
		acted := tr.once != "" // on the first answer
		eventually(tr.T, "the answer, and the attempt after it", func() bool { return acted || lasting.Hits() > 1 })
		tr.clock.forward(2 * time.Hour)
		if tr.repeated == "" {
			more := lasting.Hits()
			eventually(tr.T, "more attempts", func() bool { return lasting.Hits() > more+3 })
			lasting.Remove()
		}
		expect(tr.T, tr.sink, tr.policy, tr.repeated)
	})
}

// expect waits for what becomes of the second event: published where reason is "", else stopped or dropped.
func expect(t *testing.T, s *sink, policy cdc.Policy, reason string) {
	t.Helper()
	topicWide := reason == "topic_denied" || reason == "clock" // no event is dropped for these
	if reason == "" || policy == cdc.PolicyDrop && !topicWide {
		s.answered(t, 2)
		dropped := metric(t, s.reg, "cdc_relay_events_dropped_total")
		if want := min(len(reason), 1); int(dropped) != want {
			t.Errorf("%v events dropped, want %d", dropped, want)
		}
		return
	}
	var stop *cdc.StopError
	if err := s.failed(t); !errors.As(err, &stop) || stop.Reason != reason {
		t.Errorf("stopped with %v, want reason %s", err, reason)
	}
}

// A broker with old metadata returns that a topic is absent or denied: nothing is dropped while other responses
// differ, or while batches are acknowledged.
func TestMetadataOfOneBroker(t *testing.T) {
	for _, first := range []*kerr.Error{kerr.TopicAuthorizationFailed, kerr.LeaderNotAvailable} {
		t.Run(first.Message, func(t *testing.T) {
			c := newCluster(t, 1, 1)
			opts, clock := options(c), settable{}
			opts.Timing.Now, opts.Timing.Patience = clock.now, time.Hour
			dropEverything(&opts)
			s := open(t, opts)
			metadata := func(err *kerr.Error, n int) *kfake.FaultHandle {
				return c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "t", Err: err, Count: n})
			}
			trouble := metadata(first, -1)
			s.send(t, msg("k", "0"))
			eventually(t, "the first trouble", func() bool { return trouble.Hits() > 0 })
			clock.forward(30 * time.Minute)
			absent := metadata(kerr.UnknownTopicOrPartition, -1)
			trouble.Remove()
			eventually(t, "the answers of another kind", func() bool { return absent.Hits() > 0 })
			clock.forward(45 * time.Minute)
			before := absent.Hits()
			eventually(t, "an answer after that", func() bool { return absent.Hits() > before+1 })
			absent.Remove()
			s.answered(t, 1)
			if n := metric(t, s.reg, "cdc_relay_events_dropped_total"); n != 0 {
				t.Errorf("%v events dropped", n)
			}
		})
	}
}

// Each attempt has its own timestamp: a topic may reject old records, and a batch may have waited for hours.
func TestAttemptsCarryTheirOwnTime(t *testing.T) {
	for _, compression := range []string{"none", "gzip"} {
		t.Run(compression, func(t *testing.T) {
			c := newCluster(t, 1, 1)
			opts, clock := options(c), settable{}
			opts.Timing.Now, opts.Compression = clock.now, compression
			s := open(t, opts)
			waits := c.Fault(onProduce(kerr.NotEnoughReplicas, -1))
			s.send(t, numbered(0, 3, 1)...)
			eventually(t, "an attempt", func() bool { return waits.Hits() > 0 })
			clock.forward(48 * time.Hour)
			before := waits.Hits()
			eventually(t, "an attempt that began after that", func() bool { return waits.Hits() > before+1 })
			waits.Remove()
			s.answered(t, 1)
			for _, r := range read(t, c.ListenAddrs(), "t", 3) {
				if age := clock.now().Sub(r.Timestamp); age > time.Hour {
					t.Errorf("record %s is dated %s ago", r.Value, age)
				}
			}
		})
	}
}
