package publisher_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

func TestMain(m *testing.M) {
	// sarama registers one meter for each topic that is read, in go-metrics' global registry.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

// patience is how long a test waits for what is to happen; a busy machine needs seconds for what takes milliseconds.
const patience = time.Minute

// newCluster starts a fake of some brokers with topic "t" of some partitions. It fails the test if a transaction is aborted under its
// epoch, see [kafka.Transactions.Commit].
func newCluster(t *testing.T, brokers, partitions int, more ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	opts := append([]kfake.Opt{kfake.NumBrokers(brokers), kfake.SeedTopics(int32(partitions), "t")}, more...)
	c, err := kfake.NewCluster(opts...)
	testenv.Must(t, err)
	t.Cleanup(c.Close)
	c.ControlKey(int16(kmsg.EndTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if end, _ := req.(*kmsg.EndTxnRequest); !end.Commit {
			cdctest.Violation(t, cdctest.Duplicates, "a transaction is aborted under its epoch")
		}
		return nil, nil, false
	})
	return c
}

// wrapping puts what wrap returns in place of each connection to a broker.
func wrapping(wrap func(net.Conn) net.Conn) kfake.Opt {
	return kfake.ListenFn(func(network, addr string) (net.Listener, error) {
		l, err := net.Listen(network, addr)
		return wrapped{l, wrap}, err
	})
}

type wrapped struct {
	net.Listener
	wrap func(net.Conn) net.Conn
}

func (w wrapped) Accept() (net.Conn, error) {
	conn, err := w.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return w.wrap(conn), nil
}

// silentCluster does not answer requests to publish; asked is sent to once there is one.
func silentCluster(t *testing.T, partitions int) (c *kfake.Cluster, asked chan struct{}) {
	t.Helper()
	asked, release := make(chan struct{}, 1), make(chan struct{})
	t.Cleanup(func() { close(release) }) // after the cluster's end: kfake may deadlock if a control wakes up just before it
	c = newCluster(t, 1, partitions)
	c.ControlKey(produceKey, func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		select {
		case asked <- struct{}{}:
		default:
		}
		c.SleepControl(func() { <-release })
		return nil, nil, false
	})
	return c, asked
}

func options(c *kfake.Cluster) publisher.Options { return optionsAt(c.ListenAddrs()...) }

func optionsAt(brokers ...string) publisher.Options {
	return publisher.Options{
		Kafka:        kafka.Options{Brokers: brokers, ClientID: "cdc-relay", DialTimeout: patience, RequestTimeout: patience},
		Timing:       publisher.Timing{Patience: 300 * time.Millisecond},
		Strict:       true,
		RetryInitial: 5 * time.Millisecond, RetryMax: 50 * time.Millisecond,
		Compression: "none", MaxMessageBytes: 1048588,
		Policies: cdc.Policies{UnknownTopic: cdc.PolicyStop, Malformed: cdc.PolicyStop, TooLarge: cdc.PolicyStop, Rejected: cdc.PolicyStop},
	}
}

// sink is a publisher and what it has answered.
type sink struct {
	*publisher.Publisher
	exactlyOnce bool
	reg         *prometheus.Registry
	next        uint64
	mu          sync.Mutex
	done        map[uint64]int
	acked       uint64 // the last batch that is done, and with exactly-once delivery committed
	err         error
	news        chan struct{}
}

func newSink(exactlyOnce bool) *sink {
	return &sink{exactlyOnce: exactlyOnce, reg: prometheus.NewRegistry(), done: map[uint64]int{}, news: make(chan struct{}, 1), next: 1}
}

func open(t *testing.T, opts publisher.Options) *sink {
	t.Helper()
	s := newSink(false)
	dropped := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cdc_relay_events_dropped_total"}, []string{"reason"})
	s.reg.MustRegister(dropped)
	opts.Dropped = func(reason string) { dropped.WithLabelValues(reason).Inc() }
	p := publisher.New(opts, logger(t), s.reg)
	s.Publisher = p
	t.Cleanup(p.Kill)
	mustOpen(t, p)
	go s.collect(t.Context(), p.Durable())
	return s
}

func unopened(t *testing.T, opts publisher.Options) *publisher.Publisher {
	t.Helper()
	p := publisher.New(opts, logger(t), prometheus.NewRegistry())
	t.Cleanup(p.Kill)
	return p
}

// logged opens a publisher, and keeps what it logs.
func logged(t *testing.T, opts publisher.Options) (*publisher.Publisher, *testenv.Log) {
	t.Helper()
	log := &testenv.Log{}
	p := publisher.New(opts, slog.New(slog.NewTextHandler(log, nil)), prometheus.NewRegistry())
	t.Cleanup(p.Kill)
	mustOpen(t, p)
	return p, log
}

func mustOpen(t *testing.T, p *publisher.Publisher) {
	t.Helper()
	testenv.Must(t, p.Open(t.Context(), "cdc-relay.test"))
}

func logger(t *testing.T) *slog.Logger {
	t.Helper()
	w := io.Discard
	if testing.Verbose() {
		w = t.Output()
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (s *sink) collect(ctx context.Context, answers <-chan cdc.Durable) {
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-answers:
			err := d.Err
			if d.Cut {
				_, err = s.Commit(ctx, "position", nil)
			}
			s.mu.Lock()
			if err != nil && s.err == nil {
				s.err = err
			}
			for seq := d.First; seq <= d.Last && err == nil; seq++ {
				s.done[seq]++
			}
			if d.Cut == s.exactlyOnce {
				s.acked = max(s.acked, d.Last)
			}
			s.mu.Unlock()
			select {
			case s.news <- struct{}{}:
			default:
			}
		}
	}
}

// await waits until cond, called under the lock, holds.
func (s *sink) await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	timeout := time.After(patience)
	for {
		s.mu.Lock()
		ok := cond()
		s.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-s.news:
		case <-timeout:
			t.Fatalf("waited for %s without success: %d answered, error %v", what, len(s.done), s.err)
		}
	}
}

// answered waits for the answers to the first n batches.
func (s *sink) answered(t *testing.T, n uint64) {
	t.Helper()
	s.await(t, fmt.Sprintf("%d answers", n), func() bool {
		for seq := uint64(1); seq <= n; seq++ {
			if s.done[seq] == 0 {
				return false
			}
		}
		return true
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for seq, times := range s.done {
		if times != 1 {
			t.Fatalf("batch %d was answered %d times", seq, times)
		}
	}
}

func (s *sink) failed(t *testing.T) error {
	t.Helper()
	s.await(t, "an error", func() bool { return s.err != nil })
	return s.err
}

// send sends the messages as one batch.
func (s *sink) send(t *testing.T, msgs ...cdc.Message) uint64 {
	t.Helper()
	r := &cdc.Routed{Batch: &cdc.Batch{Seq: s.next, Txs: []cdc.Tx{{Time: time.Now().UnixMicro()}}}, Messages: msgs}
	s.next++
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	testenv.Must(t, s.Send(ctx, r))
	return r.Seq()
}

// msg makes a message to topic "t"; its event id is key/value.
func msg(key, value string) cdc.Message {
	return cdc.Message{
		ID: []byte(key + "/" + value), Topic: "t", Key: []byte(key), Value: []byte(value),
		Headers: []cdc.Header{{Key: []byte("ce_id"), Value: []byte(key + "/" + value)}, {Key: []byte("k"), Value: []byte("v")}},
	}
}

// numbered makes n messages of some keys in turn; each key's values count up from first.
func numbered(first, n, keys int) []cdc.Message {
	msgs := make([]cdc.Message, n)
	for i := range msgs {
		msgs[i] = msg("k"+strconv.Itoa((first+i)%keys), strconv.Itoa(first+i))
	}
	return msgs
}

// read reads n records of a topic.
func read(t *testing.T, addrs []string, topic string, n int) (all []*kgo.Record) {
	t.Helper()
	consume(t, addrs, topic, func(records []*kgo.Record) bool {
		all = append(all, records...)
		return len(all) >= n
	})
	return all
}

// consume reads a topic until done, with a client that is not sarama.
func consume(t *testing.T, addrs []string, topic string, done func([]*kgo.Record) bool) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.ConsumeTopics(topic), kgo.FetchMaxWait(50*time.Millisecond))
	testenv.Must(t, err)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for n := 0; ; {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatalf("read %d records: %v", n, err)
		}
		n += fs.NumRecords()
		if done(fs.Records()) {
			return
		}
	}
}

// metric returns the sum of a counter's or gauge's children, or the number of a histogram's observations.
func metric(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	testenv.Must(t, err)
	var sum float64
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// eventually polls until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(patience)
	for !cond() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("waited for %s without success", what)
		}
	}
}

// inOrder reads until it has seen n different messages of numbered and checks that, key by key, each new one follows the one
// before it and that each key stays in one partition.
func inOrder(t *testing.T, addrs []string, n, keys int) {
	t.Helper()
	last, home, seen := map[string]int{}, map[string]int32{}, map[int]bool{}
	consume(t, addrs, "t", func(records []*kgo.Record) bool {
		for _, r := range records {
			key := string(r.Key)
			v, err := strconv.Atoi(string(r.Value))
			testenv.Must(t, err)
			if p, ok := home[key]; ok && p != r.Partition {
				cdctest.Violation(t, cdctest.Order, "key %s is in partitions %d and %d", key, p, r.Partition)
				t.FailNow()
			}
			home[key] = r.Partition
			if top, ok := last[key]; !seen[v] && (ok && v != top+keys || !ok && v >= keys) {
				cdctest.Violation(t, cdctest.Order, "key %s: %d is first seen after %d", key, v, top)
				t.FailNow()
			}
			seen[v], last[key] = true, max(v, last[key])
		}
		return len(seen) >= n
	})
}
