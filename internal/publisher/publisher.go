package publisher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// ErrKilled is what Open and Send return after Kill.
var ErrKilled = errors.New("the publisher was killed")

// Publisher publishes messages to Kafka: Open, Send, …, Kill. It cannot be opened again after Kill.
type Publisher struct {
	opts    Options
	log     *slog.Logger
	metrics *metrics
	client  *kafka.Client
	in      chan *cdc.Routed
	out     chan cdc.Durable

	// life ends with Kill, which waits for the goroutines that were started under it.
	life func() context.Context
	kill context.CancelFunc
	wg   sync.WaitGroup

	mu   sync.Mutex // guards what follows, and Open against Kill
	open bool
}

// New checks the options and registers the metrics; it connects to nothing. A nil reg registers none.
// Metrics that an earlier publisher has registered are reused.
func New(opts Options, log *slog.Logger, reg prometheus.Registerer) (*Publisher, error) {
	opts = withDefaults(opts)
	if err := opts.validate(); err != nil {
		return nil, cdc.Stop(cdc.ClassConfig, "kafka_config", err, "")
	}
	client, err := kafka.NewClient(opts.Kafka)
	if err != nil {
		return nil, err // has its own words
	}
	m, err := newMetrics(reg)
	if err != nil {
		return nil, err
	}
	p := &Publisher{
		opts: opts, log: log, metrics: m, client: client,
		// Room for a few batches, so that the router and the loop do not wait for each other.
		in: make(chan *cdc.Routed, 8), out: make(chan cdc.Durable, 64),
	}
	life, kill := context.WithCancel(context.Background())
	p.life, p.kill = func() context.Context { return life }, kill
	return p, nil
}

// Open connects to a broker and gets a producer ID and epoch, which fences every publisher that was opened before with
// the same transactional ID (see [Options.TransactionalID]) or with one that it replaces. So only a leader may call it.
// It tries each broker once; its errors may be temporary unless they are a [cdc.StopError]. After a success further
// calls do nothing.
func (p *Publisher) Open(ctx context.Context, transactionalID string, replaced ...string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	life := p.life()
	if life.Err() != nil {
		return ErrKilled
	}
	if p.open {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(life, cancel)() //nolint:contextcheck // the publisher outlives Open
	derived := transactionalID
	if transactionalID = kafka.TransactionalID(p.opts.TransactionalID, derived); transactionalID != derived {
		replaced = nil // nobody published under them, and this relay may lack the right to
	}
	producer, err := p.takeOver(ctx, transactionalID, replaced)
	p.client.Close() // its connection ends with ctx; jobs open another one
	if life.Err() != nil {
		return ErrKilled
	}
	if err != nil {
		return fmt.Errorf("open the publisher: %w", err)
	}
	p.start(life, transactionalID, producer) //nolint:contextcheck // the publisher outlives Open
	p.open = true
	return nil
}

// takeOver fences, and returns the producer ID and epoch to publish with.
func (p *Publisher) takeOver(ctx context.Context, transactionalID string, replaced []string) (kafka.Producer, error) {
	for _, id := range replaced {
		if _, err := p.client.TakeOver(ctx, id); err != nil {
			return kafka.Producer{}, err
		}
	}
	return p.client.TakeOver(ctx, transactionalID)
}

func (p *Publisher) start(life context.Context, transactionalID string, producer kafka.Producer) {
	jobs := make(chan job, 1)
	l := &loop{
		opts: &p.opts, log: p.log, metrics: p.metrics, mail: newMailbox(),
		in: p.in, out: p.out, jobs: jobs,
		topics: map[string]*topic{}, transactionalID: transactionalID, producer: producer, stopSeq: noStop,
	}
	l.codec, _ = codec(p.opts.Compression) // validated
	l.startConn = func(c *brokerConn) {
		ctx, closeNow := context.WithCancel(life)
		c.closeNow = closeNow
		p.wg.Go(func() { c.run(ctx, p.client) })
	}
	p.wg.Go(func() { runJobs(life, p.client, jobs, l.mail) })
	p.wg.Go(func() { l.run(life) })
}

// Send publishes r, which must not be changed until its answer comes from [Publisher.Durable]. Messages of one partition
// are published in the order of Send. It blocks while the buffer is full, until ctx ends or the publisher is killed.
// Only one goroutine may call it.
func (p *Publisher) Send(ctx context.Context, r *cdc.Routed) error {
	if p.life().Err() != nil {
		return ErrKilled
	}
	select {
	case p.in <- r:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("send to Kafka: %w", ctx.Err())
	case <-p.life().Done():
		return ErrKilled
	}
}

// Durable has one answer for each Routed, in any order; neighbours may share one. The first error is final: nothing
// comes after it. The channel is never closed.
func (p *Publisher) Durable() <-chan cdc.Durable { return p.out }

// Kill ends everything at once: when it returns all connections are closed, nothing more is sent, and no message is
// used any more. Messages without an answer may be published or not. It may be called at any time, from several
// goroutines, and again.
func (p *Publisher) Kill() {
	p.kill()
	p.mu.Lock() // after an Open that is running
	defer p.mu.Unlock()
	p.wg.Wait()
}
