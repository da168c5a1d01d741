// Package publisher tests the publisher against real Kafka and reads back with franz-go.
package publisher

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// shared is a broker for all tests that do not disturb it.
var shared *testenv.KafkaCluster

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, func(ctx context.Context, _ string) (err error) {
		shared, err = testenv.StartKafka(ctx, testenv.KafkaOptions{Secure: true})
		return err
	}, func() error { return shared.Close() }, func() error {
		// sarama's encoder of fetch requests takes one meter from a global registry.
		return goleak.Find(goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
	}))
}

func newTopic(t *testing.T, k *testenv.KafkaCluster, name string, partitions int, settings map[string]string) {
	t.Helper()
	testenv.Must(t, k.CreateTopic(t.Context(), name, partitions, settings))
}

// sink is a publisher and its results.
type sink struct {
	*publisher.Publisher
	next uint64
	mu   sync.Mutex
	done map[uint64]bool
	err  error
	news chan struct{}
	log  *testenv.Log
	reg  *prometheus.Registry
}

func unopened(t *testing.T, opts publisher.Options) *sink {
	t.Helper()
	opts.Strict, opts.Kafka = true, reached(opts.Kafka)
	opts.Compression = cmp.Or(opts.Compression, "none")
	for _, p := range []*cdc.Policy{&opts.UnknownTopic, &opts.Malformed, &opts.TooLarge, &opts.Rejected} {
		*p = cmp.Or(*p, cdc.PolicyStop)
	}
	opts.RetryInitial, opts.RetryMax, opts.MaxMessageBytes = 200*time.Millisecond, 10*time.Second, 1048588
	log := new(testenv.Log)
	var out io.Writer = log
	if testing.Verbose() {
		out = io.MultiWriter(log, t.Output())
	}
	reg := prometheus.NewRegistry()
	p := publisher.New(opts, slog.New(slog.NewTextHandler(out, nil)), reg)
	t.Cleanup(p.Kill)
	return &sink{Publisher: p, next: 1, done: map[uint64]bool{}, news: make(chan struct{}, 1), log: log, reg: reg}
}

// reached fills in what package config has by default.
func reached(o kafka.Options) kafka.Options {
	o.ClientID, o.RequestTimeout = "cdc-relay", cmp.Or(o.RequestTimeout, 15*time.Second)
	return o
}

// describe describes topics as `check` does.
func describe(t *testing.T, opts kafka.Options, transactionalID string, topics ...string) kafka.Description {
	t.Helper()
	c := kafka.NewClient(reached(opts))
	d, err := c.Describe(t.Context(), topics, transactionalID)
	testenv.Must(t, err)
	return d
}

// open opens a publisher; a broker that has just started may still be loading.
func open(t *testing.T, opts publisher.Options) *sink {
	t.Helper()
	s := unopened(t, opts)
	cdctest.Retry(t, soon, "Open", func(context.Context) error { return s.Open(t.Context(), "cdc-relay.test") }) //nolint:contextcheck // what it starts goes on
	go s.collect(t.Context())
	return s
}

func (s *sink) collect(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-s.Durable():
			s.mu.Lock()
			if s.err == nil {
				s.err = d.Err
			}
			for seq := d.First; seq <= d.Last && d.Err == nil; seq++ {
				if s.done[seq] {
					s.err = fmt.Errorf("batch %d was answered twice", seq)
				}
				s.done[seq] = true
			}
			s.mu.Unlock()
			select {
			case s.news <- struct{}{}:
			default:
			}
		}
	}
}

// await waits until n batches are done or one has failed.
func (s *sink) await(t *testing.T, within time.Duration, n int) error {
	t.Helper()
	timeout := time.After(within)
	for {
		s.mu.Lock()
		have, err := len(s.done), s.err
		s.mu.Unlock()
		if have >= n || err != nil {
			return err
		}
		select {
		case <-s.news:
		case <-timeout:
			t.Fatalf("%d of %d batches answered after %v", have, n, within)
		}
	}
}

func durable(t *testing.T, s *sink, batches int) {
	t.Helper()
	testenv.Must(t, s.await(t, soon, batches))
}

func (s *sink) send(t *testing.T, msgs ...cdc.Message) {
	t.Helper()
	r := &cdc.Routed{Batch: &cdc.Batch{Seq: s.next, Txs: []cdc.Tx{{Time: time.Now().UnixMicro()}}}, Messages: msgs}
	s.next++
	testenv.Must(t, s.Send(t.Context(), r))
}

// numbered returns n messages of some keys in turn, whose values count up from first.
func numbered(topic string, first, n, keys int) []cdc.Message {
	msgs := make([]cdc.Message, n)
	for i := range msgs {
		v := strconv.Itoa(first + i)
		msgs[i] = cdc.Message{
			ID: []byte("id-" + v), Topic: topic, Key: []byte("k" + strconv.Itoa((first+i)%keys)), Value: []byte(v),
			Headers: []cdc.Header{{Key: []byte("ce_id"), Value: []byte("id-" + v)}, {Key: []byte("empty")}},
		}
	}
	return msgs
}

// readAll reads a topic from the start until done returns true.
func readAll(t *testing.T, addrs []string, topic string, done func(*kgo.Record) bool) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.ConsumeTopics(topic), kgo.FetchMaxWait(100*time.Millisecond))
	testenv.Must(t, err)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	for {
		fs := cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Fatalf("read %s: %v", topic, err)
		}
		if slices.ContainsFunc(fs.Records(), done) {
			return
		}
	}
}

// order checks the order of numbered messages.
type order struct {
	keys int // numbered's
	last map[string]int
	home map[string]int32
	seen map[int]int
}

func newOrder(keys int) *order {
	return &order{keys, map[string]int{}, map[string]int32{}, map[int]int{}}
}

// check ends the test at a message that is out of order, or in a second partition of its key.
func (o *order) check(t *testing.T, r *kgo.Record) {
	t.Helper()
	key, v := string(r.Key), value(t, r)
	if p, ok := o.home[key]; ok && p != r.Partition {
		cdctest.Violation(t, cdctest.Order, "key %s is in partitions %d and %d", key, p, r.Partition)
		t.FailNow()
	}
	if top, ok := o.last[key]; ok && o.seen[v] == 0 && v != top+o.keys {
		cdctest.Violation(t, cdctest.Order, "key %s: %d first appears after %d", key, v, top)
		t.FailNow()
	}
	o.home[key], o.last[key] = r.Partition, max(v, o.last[key])
	o.seen[v]++
}

// value returns the number of a message.
func value(t *testing.T, r *kgo.Record) int {
	t.Helper()
	v, err := strconv.Atoi(string(r.Value))
	if err != nil {
		cdctest.Violation(t, cdctest.Content, "key %s: value %.80q", r.Key, r.Value)
		t.FailNow()
	}
	return v
}

// once fails the test if a message was repeated.
func (o *order) once(t *testing.T) {
	t.Helper()
	if n := o.duplicates(); n > 0 {
		cdctest.Violation(t, cdctest.Duplicates, "%d messages were repeated", n)
	}
}

// duplicates returns the number of repeated records.
func (o *order) duplicates() int {
	n := 0
	for _, times := range o.seen {
		n += times - 1
	}
	return n
}

func trust(t *testing.T, k *testenv.KafkaCluster) func() (*tls.Config, error) {
	t.Helper()
	pem, err := os.ReadFile(k.Certs.CAFile)
	testenv.Must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return func() (*tls.Config, error) { return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil }
}

// anyTLS does not know the CA of any test server.
func anyTLS() (*tls.Config, error) { return &tls.Config{MinVersion: tls.VersionTLS12}, nil }
