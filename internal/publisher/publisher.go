package publisher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// ErrKilled is what Open and Send return after Kill.
var ErrKilled = errors.New("the publisher was killed")

// Publisher publishes messages to Kafka. It lives once: Open, Send, …, Kill; a new run makes a new one.
type Publisher struct {
	opts    Options
	log     *slog.Logger
	metrics *metrics
	dialer  *dialer
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
// Metrics that an earlier publisher has registered are used again.
func New(opts Options, log *slog.Logger, reg prometheus.Registerer) (*Publisher, error) {
	opts = withDefaults(opts)
	if err := opts.validate(); err != nil {
		return nil, cdc.Stop(cdc.ClassConfig, "kafka_config", err)
	}
	m, err := newMetrics(reg)
	if err != nil {
		return nil, err
	}
	p := &Publisher{
		opts: opts, log: log, metrics: m,
		// Some batches of the router's: enough that neither waits for the other.
		in: make(chan *cdc.Routed, 8), out: make(chan cdc.Durable, 64),
	}
	p.dialer = &dialer{&p.opts}
	life, kill := context.WithCancel(context.Background())
	p.life, p.kill = func() context.Context { return life }, kill
	return p, nil
}

// Open connects to a broker and gets a producer id, which fences whoever was opened under the same name before
// (see [Options.TransactionalID]; without a name there is no fence). So only a leader may call it. It tries each
// broker once; its errors are worth a retry unless they are a [cdc.StopError]. Calling it again once it has
// succeeded does nothing.
func (p *Publisher) Open(ctx context.Context, name string) error {
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
	// Questions later on use a connection of their own, under the publisher's life and not this context.
	c := &cluster{d: p.dialer, seeds: p.opts.Brokers}
	transactional := p.opts.transactional(name)
	id, err := c.takeOver(ctx, transactional)
	c.close()
	if life.Err() != nil {
		return ErrKilled
	}
	if err != nil {
		return fmt.Errorf("open the publisher: %w", err)
	}
	p.start(life, transactional, id) //nolint:contextcheck // the publisher outlives Open
	p.open = true
	return nil
}

func (p *Publisher) start(life context.Context, transactional string, id producer) {
	jobs := make(chan job, 1)
	l := &loop{
		opts: &p.opts, log: p.log, metrics: p.metrics, mail: newMailbox(),
		in: p.in, out: p.out, jobs: jobs,
		topics: map[string]*topic{}, transactional: transactional, producer: id, horizon: noHorizon,
	}
	l.codec, _ = codec(p.opts.Compression) // validated
	l.spawn = func(s *sender) {
		ctx, drop := context.WithCancel(life)
		s.drop = drop
		p.wg.Go(func() { s.run(ctx, p.dialer) })
	}
	c := &cluster{d: p.dialer, seeds: p.opts.Brokers}
	p.wg.Go(func() { control(life, c, jobs, l.mail) })
	p.wg.Go(func() { l.run(life) })
}

// Send takes r until its answer comes over [Publisher.Durable]. Messages of one partition are published
// in the order of Send. It blocks while too much waits to be sent, until ctx ends or the publisher is
// killed. Only one goroutine may call it.
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

// Durable hands out one answer for each Routed, in any order; neighbours may share one. The first error
// is final: nothing comes after it. The channel is never closed.
func (p *Publisher) Durable() <-chan cdc.Durable { return p.out }

// Kill ends everything at once: when it returns all connections are closed, no byte leaves any more and
// no message is looked at. What was not answered may be published or not. It may be called at any time,
// from several goroutines, and again.
func (p *Publisher) Kill() {
	p.kill()
	p.mu.Lock() // after an Open that is under way
	defer p.mu.Unlock()
	p.wg.Wait()
}
