package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// peersResult compares the relay with Debezium Server on one database. Each process drains a backlog that it finds when it
// starts, and then has a steady load.
type peersResult struct {
	Relay    peerResult `json:"relay"`
	Debezium peerResult `json:"debezium"`
}

// peerResult has medians of the rounds.
type peerResult struct {
	Rate   float64     `json:"events_per_second"`
	CPU    float64     `json:"cpu_us_per_event"`
	RSS    float64     `json:"peak_rss_mb"`
	P50    float64     `json:"p50_ms"`
	P99    float64     `json:"p99_ms"`
	Rounds []peerRound `json:"rounds"`
}

// peerRound is one process.
type peerRound struct {
	Drain  drained      `json:"drain"`
	Steady latencyRound `json:"steady"`
}

func (r *peerResult) sum() {
	middle := func(of func(*peerRound) float64) float64 {
		var all []float64
		for i := range r.Rounds {
			all = append(all, of(&r.Rounds[i]))
		}
		return median(all)
	}
	r.Rate = middle(func(r *peerRound) float64 { return r.Drain.Rate })
	r.CPU = middle(func(r *peerRound) float64 { return r.Drain.CPUPerEvent })
	r.RSS = middle(func(r *peerRound) float64 { return r.Steady.RSS })
	r.P50 = middle(func(r *peerRound) float64 { return r.Steady.Relay.P50 })
	r.P99 = middle(func(r *peerRound) float64 { return r.Steady.Relay.P99 })
}

// compare runs each peer on each database, in turn. One round of each that is not counted warms Kafka up.
func (s *stand) compare(ctx context.Context, rows, rounds int) (map[string]*peersResult, error) {
	out := map[string]*peersResult{}
	for _, flavor := range []string{"postgres", "mysql"} {
		res := &peersResult{}
		for round := range rounds + 1 {
			for _, p := range []peer{{s, "relay", flavor, &res.Relay}, {s, debezium, flavor, &res.Debezium}} {
				if err := p.round(ctx, round, rows); err != nil {
					return nil, fmt.Errorf("%s: %s: %w", flavor, p.name, err)
				}
			}
		}
		res.Relay.sum()
		res.Debezium.sum()
		out[flavor] = res
	}
	return out, nil
}

// peer is what publishes the outbox of one database.
type peer struct {
	*stand

	name, flavor string
	res          *peerResult
}

// outboxed is an empty outbox.
type outboxed struct {
	fill   func(n int) error
	insert func(clock *stopwatch, i int) error
	close  func() error
}

// round publishes one event, so that Debezium, which begins with what comes after its start, has a position; then what is
// written while nothing runs, and then a steady load.
func (p *peer) round(ctx context.Context, round, rows int) (err error) {
	const rate = 1000
	name := fmt.Sprintf("peers_%s_%d_%s", p.flavor, round, p.name)
	topic, err := p.topic(ctx)
	if err != nil {
		return err
	}
	db, start, err := p.open(ctx, name, topic)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	before, err := p.first(ctx, db, topic, start)
	if err != nil {
		return err
	}
	if err := db.fill(rows); err != nil {
		return err
	}
	proc, err := start()
	if err != nil {
		return err
	}
	res := peerRound{}
	if res.Drain, err = p.drainPeer(ctx, proc, topic, before, int64(rows)); err != nil {
		return err
	}
	if res.Steady, err = p.load(ctx, proc, steadyLoad{topic: topic, name: name, rate: rate, perTx: 1, insert: db.insert}); err != nil {
		return err
	}
	if round > 0 {
		p.res.Rounds = append(p.res.Rounds, res)
	}
	return proc.stop()
}

// first publishes an event: Debezium does not say when it has begun to read.
func (p *peer) first(ctx context.Context, db *outboxed, topic string, start func() (*process, error)) (before int64, err error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(p.kafka.Bootstrap()...))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	proc, err := start()
	if err != nil {
		return 0, err
	}
	clock := newStopwatch(1, 0)
	err = proc.until(ctx, time.Second, func() (bool, error) {
		if before, err = records(ctx, client, []string{topic}); err != nil || before > 0 {
			return true, err
		}
		return false, db.insert(clock, 0)
	})
	return before, errors.Join(err, proc.stop())
}

// drainPeer waits for n records behind the first ones, and measures the second half: by then a Java virtual machine has compiled
// what runs often.
func (p *peer) drainPeer(ctx context.Context, proc *process, topic string, before, n int64) (drained, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(p.kafka.Bootstrap()...))
	if err != nil {
		return drained{}, err
	}
	defer client.Close()
	var half time.Time
	var have, halfway int64
	var used time.Duration
	err = proc.until(ctx, pollInterval(1), func() (bool, error) {
		var err error
		have, err = records(ctx, client, []string{topic})
		if err == nil && half.IsZero() && have-before >= n/2 {
			half, halfway = time.Now(), have
			used, _, err = proc.usage()
		}
		return have >= before+n, err
	})
	took := time.Since(half)
	if err != nil || n == 0 {
		return drained{}, err
	}
	cpu, peak, err := proc.usage()
	counted := float64(have - halfway)
	return drained{Rate: counted / took.Seconds(), CPUPerEvent: float64((cpu - used).Microseconds()) / counted, PeakRSS: float64(peak) / (1 << 20)}, err
}
