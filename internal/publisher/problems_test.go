package publisher_test

import (
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// What is wrong with Kafka is reported while it lasts: a broker that does not answer, that refuses connections, and that rejects a
// topic's records for now.
func TestProblemsAreReportedWhileTheyLast(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		begin func(t *testing.T, c *kfake.Cluster) (end func())
		says  string
		value string
	}{
		"silent": {func(_ *testing.T, c *kfake.Cluster) func() {
			over := make(chan struct{})
			c.Control(func(kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				c.SleepControl(func() { <-over })
				return nil, nil, false
			})
			return func() { close(over) }
		}, "does not answer: ", "2"},
		"large requests lose the connection": {func(_ *testing.T, c *kfake.Cluster) func() {
			var over atomic.Bool
			c.ControlKey(produceKey, func(kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				return nil, io.EOF, !over.Load()
			})
			return func() { over.Store(true) }
		}, "while a request of 1020", strings.Repeat("x", 510_000)},
		"too few replicas": {func(_ *testing.T, c *kfake.Cluster) func() {
			fault := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "t", Err: kerr.NotEnoughReplicas, Count: -1})
			return func() { fault.Remove() }
		}, `publish to topic "t" partition 0`, "2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 1, 1)
			opts := options(c)
			opts.Problems, opts.Kafka.RequestTimeout = new(cdc.Problems), 2*time.Second
			s := open(t, opts)
			s.send(t, msg("a", "1"))
			s.answered(t, 1)
			began, end := time.Now(), tt.begin(t, c)
			s.send(t, msg("a", tt.value))
			eventually(t, "the problem", func() bool {
				return slices.ContainsFunc(opts.Problems.List(), func(p cdc.Problem) bool {
					return p.With == cdc.OnKafka && strings.Contains(p.Err.Error(), tt.says) && !p.Since.Before(began.Add(-time.Second))
				})
			})
			end()
			s.answered(t, 2)
			eventually(t, "its end", func() bool { return len(opts.Problems.List()) == 0 })
		})
	}
}

// holdProduce has the next produce request wait for its answer until it is over.
func holdProduce(c *kfake.Cluster) (over func()) {
	held := make(chan struct{})
	c.ControlKey(produceKey, func(kmsg.Request) (kmsg.Response, error, bool) {
		c.SleepControl(func() { <-held })
		return nil, nil, false
	})
	return func() { close(held) }
}

// A broker whose answer to a produce request takes long, but which answers other requests, is no problem.
func TestSlowAnswerIsNoProblem(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 1)
	opts := options(c)
	opts.Problems = new(cdc.Problems)
	s := open(t, opts)
	s.answered(t, s.send(t, msg("a", "1")))
	over := holdProduce(c)
	answers := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Observe: true, Count: -1})
	s.send(t, msg("a", "2"))
	eventually(t, "answers to other requests for some time", func() bool {
		return answers.Hits() >= 3 && len(opts.Problems.List()) == 0
	})
	over()
	s.answered(t, 2)
}
