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
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// latencyRound is one run of a steady load.
type latencyRound struct {
	Relay     spread  `json:"relay"`
	Insert    spread  `json:"insert_alone"`
	Reached   float64 `json:"events_per_second_reached"`
	CPUPerSec float64 `json:"relay_cpu_seconds_per_second"`
	RSS       float64 `json:"peak_rss_mb"`
	Steal     float64 `json:"steal_percent"` // while the relay ran
}

// spread is the distribution of times in milliseconds.
type spread struct {
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

const (
	latencyWarmUp = 3 * time.Second
	latencySpan   = 20 * time.Second
	// metadataMinAge lets a client find the leaders of a new topic during the warm-up. The default is five seconds.
	metadataMinAge = 100 * time.Millisecond
)

// steadyLoad is a load and the topic of its records.
type steadyLoad struct {
	topic, addr, name string
	rate, perTx       int
	insert            func(clock *stopwatch, i int) error // the i-th transaction
}

// load runs the load through p.
func (s *stand) load(ctx context.Context, p *process, l steadyLoad) (latencyRound, error) {
	var res latencyRound
	profiled := s.takeProfiles(ctx, l.addr, l.name)
	n := int((latencyWarmUp + latencySpan).Seconds()) * l.rate
	clock := newStopwatch(n, int(latencyWarmUp.Seconds())*l.rate)
	inserts := newStopwatch(n/l.perTx, int(latencyWarmUp.Seconds())*l.rate/l.perTx)
	cpuBefore, _, err := p.usage()
	if err != nil {
		return res, err
	}
	began, machine := time.Now(), readCPU()
	err = s.consume(ctx, l.topic, clock, func() error {
		return paced(ctx, n/l.perTx, l.rate/l.perTx, func(i int) error {
			inserts.start(i, 1)
			err := l.insert(clock, i)
			inserts.stop(i, time.Now())
			return err
		})
	})
	if err != nil {
		return res, fmt.Errorf("%w (%w)", err, p.failed())
	}
	cpu, peak, err := p.usage()
	if err != nil {
		return res, err
	}
	res.Steal = readCPU().stolenSince(machine)
	res.CPUPerSec = (cpu - cpuBefore).Seconds() / time.Since(began).Seconds()
	res.RSS = float64(peak) / (1 << 20)
	res.Reached = clock.rate()
	if err := <-profiled; err != nil {
		return res, err
	}
	res.Relay, res.Insert = clock.spread(), inserts.spread()
	return res, nil
}

// insert inserts size events with one statement in autocommit mode.
func insert(ctx context.Context, conn *pgx.Conn, clock *stopwatch, first, size int) error {
	clock.start(first, size)
	_, err := conn.Exec(ctx, `INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, tenant_id, payload, occurred_at)
		SELECT gen_random_uuid(), 'Order', 'order-' || lpad((i % 100000)::text, 6, '0'), 'OrderPlaced', 'tenant-1',
			int8send(i) || decode(repeat('78', $3), 'hex'), now() FROM generate_series($1::bigint, $1::bigint + $2 - 1) i`, first, size, payloadSize-8)
	return err
}

// kafkaAlone measures a load without database and relay.
func (s *stand) kafkaAlone(ctx context.Context, rate int, warm, span time.Duration) (spread, error) {
	topic, err := s.topic(ctx)
	if err != nil {
		return spread{}, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(s.kafka.Bootstrap()...), kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0), kgo.MetadataMinAge(metadataMinAge))
	if err != nil {
		return spread{}, err
	}
	defer client.Close()
	n := int((warm + span).Seconds()) * rate
	clock := newStopwatch(n, int(warm.Seconds())*rate)
	err = s.consume(ctx, topic, clock, func() error {
		return paced(ctx, n, rate, func(i int) error {
			key, value := numbered(i)
			clock.start(i, 1)
			client.Produce(ctx, &kgo.Record{Key: []byte(key), Value: value}, nil)
			return nil
		})
	})
	return clock.spread(), err
}

// paced calls f for 0..n-1 at a steady rate per second. A late call does not delay later ones.
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

// consume reads what comes to the topic while load runs, until every event has arrived.
func (s *stand) consume(ctx context.Context, topic string, clock *stopwatch, load func() error) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(s.kafka.Bootstrap()...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.MetadataMinAge(metadataMinAge))
	if err != nil {
		return err
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	if err != nil {
		return err
	}
	client.AddConsumePartitions(ends.KOffsets())
	ctx, cancel := context.WithTimeout(ctx, 4*(latencyWarmUp+latencySpan))
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

// stopwatch times events by their number. An event is stopped after it was started, so the atomics only order memory.
type stopwatch struct {
	base    time.Time      // a clock that is set changes nothing
	sent    []atomic.Int64 // nanoseconds since base
	took    []time.Duration
	got     []bool
	arrived int
	warm    int // events before this one are not counted
	ended   time.Time
}

func newStopwatch(n, warm int) *stopwatch {
	return &stopwatch{base: time.Now(), sent: make([]atomic.Int64, n), took: make([]time.Duration, n), got: make([]bool, n), warm: warm}
}

func (w *stopwatch) start(first, n int) {
	now := int64(time.Since(w.base))
	for i := first; i < first+n; i++ {
		w.sent[i].Store(now)
	}
}

func (w *stopwatch) stop(i int, at time.Time) {
	if w.got[i] {
		return
	}
	w.got[i], w.took[i], w.ended = true, at.Sub(w.base)-time.Duration(w.sent[i].Load()), at
	w.arrived++
}

func (w *stopwatch) missing() int { return len(w.got) - w.arrived }

func (w *stopwatch) rate() float64 {
	return float64(len(w.got)-w.warm) / (w.ended.Sub(w.base) - time.Duration(w.sent[w.warm].Load())).Seconds()
}

func (w *stopwatch) spread() spread { return w.between(w.warm, len(w.took)) }

// between is the spread of the events from..to-1.
func (w *stopwatch) between(from, to int) spread {
	sorted := slices.Sorted(slices.Values(w.took[from:to]))
	at := func(q float64) float64 {
		return float64(sorted[int(q*float64(len(sorted)-1))].Microseconds()) / 1e3
	}
	return spread{P50: at(0.5), P99: at(0.99), Max: at(1)}
}

// startResult is the time of a start with all servers up, in milliseconds, from exec until /readyz succeeds.
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
