package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
)

// latencyRes is one steady load. Times are in milliseconds, from before the INSERT is sent (it commits
// by itself) until a consumer has the record; for Kafka alone from Produce until then.
type latencyRes struct {
	Rate      int     `json:"events_per_second"`
	PerTx     int     `json:"rows_per_transaction"`
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	Max       float64 `json:"max_ms"`
	KafkaP50  float64 `json:"kafka_alone_p50_ms"`
	KafkaP99  float64 `json:"kafka_alone_p99_ms"`
	Reached   float64 `json:"events_per_second_reached"`
	CPUPerSec float64 `json:"relay_cpu_seconds_per_second"`
	RSS       float64 `json:"peak_rss_mb"`
}

const (
	latencyWarmUp = 3 * time.Second
	latencySpan   = 20 * time.Second
)

func (s *stand) latencies(ctx context.Context) (map[string]*latencyRes, error) {
	out := map[string]*latencyRes{}
	for _, load := range []struct{ rate, perTx int }{{1_000, 1}, {10_000, 10}} {
		name := fmt.Sprintf("%d/s", load.rate)
		res, err := s.latency(ctx, fmt.Sprintf("latency_%d", load.rate), load.rate, load.perTx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = res
	}
	return out, nil
}

func (s *stand) latency(ctx context.Context, database string, rate, perTx int) (*latencyRes, error) {
	conn, err := s.database(ctx, database, database)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	topic, err := s.topic(ctx)
	if err != nil {
		return nil, err
	}
	path, err := s.configure(database, database, topic, s.listen())
	if err != nil {
		return nil, err
	}
	p, err := s.start(path)
	if err != nil {
		return nil, err
	}
	res := &latencyRes{Rate: rate, PerTx: perTx}
	n := int((latencyWarmUp + latencySpan).Seconds()) * rate
	clock := newStopwatch(n, int(latencyWarmUp.Seconds())*rate)
	cpuBefore, _, err := p.usage()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	err = s.consume(ctx, topic, clock, func() error {
		return paced(ctx, n/perTx, rate/perTx, func(i int) error { return insert(ctx, conn, clock, i*perTx, perTx) })
	})
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", err, p.failed())
	}
	cpu, peak, err := p.usage()
	if err != nil {
		return nil, err
	}
	res.CPUPerSec = (cpu - cpuBefore).Seconds() / time.Since(began).Seconds()
	res.RSS = float64(peak) / (1 << 20)
	res.Reached = clock.rate()
	res.P50, res.P99, res.Max = clock.percentiles()
	if err := p.stop(); err != nil {
		return nil, err
	}
	return res, s.kafkaAlone(ctx, res, n, rate)
}

// insert writes size events in one transaction: one statement that commits by itself.
func insert(ctx context.Context, conn *pgx.Conn, clock *stopwatch, first, size int) error {
	clock.start(first, size)
	_, err := conn.Exec(ctx, `INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, tenant_id, payload, occurred_at)
		SELECT gen_random_uuid(), 'Order', 'order-' || lpad((i % 100000)::text, 6, '0'), 'OrderPlaced', 'tenant-1',
			int8send(i) || decode(repeat('78', $3), 'hex'), now() FROM generate_series($1::bigint, $1::bigint + $2 - 1) i`, first, size, payloadSize-8)
	return err
}

// kafkaAlone measures the same load without database and relay.
func (s *stand) kafkaAlone(ctx context.Context, res *latencyRes, n, rate int) error {
	topic, err := s.topic(ctx)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(s.kafka.Bootstrap()...), kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0))
	if err != nil {
		return err
	}
	defer client.Close()
	clock := newStopwatch(n, int(latencyWarmUp.Seconds())*rate)
	err = s.consume(ctx, topic, clock, func() error {
		return paced(ctx, n, rate, func(i int) error {
			value := binary.BigEndian.AppendUint64(make([]byte, 0, payloadSize), uint64(i))
			clock.start(i, 1)
			client.Produce(ctx, &kgo.Record{Key: fmt.Appendf(nil, "order-%06d", i%100000), Value: append(value, make([]byte, payloadSize-8)...)}, nil)
			return nil
		})
	})
	res.KafkaP50, res.KafkaP99, _ = clock.percentiles()
	return err
}

// paced calls f for 0..n-1 at a steady rate per second; a call that comes late does not delay the rest.
func paced(ctx context.Context, n, rate int, f func(i int) error) error {
	began := time.Now()
	for i := range n {
		if wait := time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(rate))); wait > 0 {
			time.Sleep(wait)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(i); err != nil {
			return err
		}
	}
	return nil
}

// consume reads the topic while load runs, until every event has come.
func (s *stand) consume(ctx context.Context, topic string, clock *stopwatch, load func() error) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(s.kafka.Bootstrap()...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*(latencyWarmUp+latencySpan))
	defer cancel()
	loaded := make(chan error, 1)
	go func() { loaded <- load() }()
	for clock.missing() > 0 {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%d events did not arrive: %w", clock.missing(), err)
		}
		now := time.Now()
		fetches.EachRecord(func(r *kgo.Record) { clock.stop(int(binary.BigEndian.Uint64(r.Value)), now) })
		select {
		case err := <-loaded:
			if err != nil {
				return err
			}
		default:
		}
	}
	return nil
}

// stopwatch times events by their number. Starting and stopping an event happen one after the other, so
// the atomics only order them.
type stopwatch struct {
	sent    []atomic.Int64 // Unix nanoseconds
	took    []time.Duration
	got     []bool
	arrived int
	warm    int // events before this one are not counted
	ended   time.Time
}

func newStopwatch(n, warm int) *stopwatch {
	return &stopwatch{sent: make([]atomic.Int64, n), took: make([]time.Duration, n), got: make([]bool, n), warm: warm}
}

func (w *stopwatch) start(first, n int) {
	now := time.Now().UnixNano()
	for i := first; i < first+n; i++ {
		w.sent[i].Store(now)
	}
}

func (w *stopwatch) stop(i int, at time.Time) {
	if w.got[i] {
		return
	}
	w.got[i], w.took[i], w.ended = true, time.Duration(at.UnixNano()-w.sent[i].Load()), at
	w.arrived++
}

func (w *stopwatch) missing() int { return len(w.got) - w.arrived }

func (w *stopwatch) rate() float64 {
	return float64(len(w.got)-w.warm) / w.ended.Sub(time.Unix(0, w.sent[w.warm].Load())).Seconds()
}

func (w *stopwatch) percentiles() (p50, p99, highest float64) {
	sorted := slices.Sorted(slices.Values(w.took[w.warm:]))
	at := func(q float64) float64 {
		return float64(sorted[int(q*float64(len(sorted)-1))].Microseconds()) / 1e3
	}
	return at(0.5), at(0.99), at(1)
}

// startResult is how long a start takes with all servers up, in milliseconds, from exec to /readyz.
type startResult struct {
	Median float64   `json:"median_ms"`
	Each   []float64 `json:"each_ms"`
}

func (s *stand) startTimes(ctx context.Context) (*startResult, error) {
	conn, err := s.database(ctx, "starts", "starts")
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	topic, err := s.topic(ctx)
	if err != nil {
		return nil, err
	}
	res := &startResult{}
	for range 9 {
		addr := s.listen()
		path, err := s.configure("starts", "starts", topic, addr)
		if err != nil {
			return nil, err
		}
		p, err := s.start(path)
		if err != nil {
			return nil, err
		}
		if err := p.until(ctx, 2*time.Millisecond, func() (bool, error) { return ready(ctx, addr), nil }); err != nil {
			return nil, err
		}
		res.Each = append(res.Each, float64(time.Since(p.started).Microseconds())/1e3)
		if err := p.stop(); err != nil {
			return nil, err
		}
	}
	res.Median = median(res.Each)
	return res, nil
}

func ready(ctx context.Context, addr string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
