package publisher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/IBM/sarama"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// ErrKilled is what Open and Send return after Kill.
var ErrKilled = errors.New("the publisher was killed")

// Publisher publishes messages to Kafka: Open, Send, …, Kill. After Kill it can be opened again only after Reset.
type Publisher struct {
	opts    Options
	log     *slog.Logger
	metrics *metrics
	client  *kafka.Client
	// coordinator makes the requests of transactions, which must not wait for those of client.
	coordinator *kafka.Client
	in          chan *cdc.Routed
	out         chan cdc.Durable
	mail        *mailbox
	barrier     *barrier // of the last start

	// life ends with Kill, which waits for the goroutines that were started under it.
	life func() context.Context
	kill context.CancelFunc
	wg   sync.WaitGroup

	mu   sync.Mutex // guards what follows, and Open against Kill
	open bool

	last *kafkaTransaction // of the last attempt: Abort ends it, and the next one takes its careful over

	lastSeq atomic.Uint64
}

// New registers the metrics; it connects to nothing.
func New(opts Options, log *slog.Logger, reg prometheus.Registerer) *Publisher {
	opts = withDefaults(opts)
	client := kafka.NewClient(opts.Kafka)
	coordinator := kafka.NewClient(opts.Kafka)
	p := &Publisher{opts: opts, log: log, metrics: newMetrics(reg), client: client, coordinator: coordinator, last: &kafkaTransaction{}}
	p.Reset()
	return p
}

// Reset makes it possible to open the publisher again after Kill. Answers that were not received are gone.
func (p *Publisher) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Room for a few batches, so that the router and the loop do not wait for each other.
	p.in, p.out = make(chan *cdc.Routed, 8), make(chan cdc.Durable, 64)
	p.mail, p.open = newMailbox(), false
	life, kill := context.WithCancel(context.Background())
	p.life, p.kill = func() context.Context { return life }, kill
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
	if transactionalID = kafka.TransactionalID(p.opts.TransactionalID, transactionalID); transactionalID == "" {
		replaced = nil
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

// takeOver fences, verifies the topics, and returns the producer ID and epoch to publish with. The fence comes first: it ends a
// transaction that an earlier attempt has left open, also if this one is refused.
func (p *Publisher) takeOver(ctx context.Context, transactionalID string, replaced []string) (kafka.Producer, error) {
	for _, id := range replaced {
		_, err := p.client.TakeOver(ctx, id)
		if errors.Is(err, sarama.ErrTransactionalIDAuthorizationFailed) {
			p.log.Warn("an earlier relay is not fenced: this one may not use its transactional ID", "transactional_id", id)
			continue
		}
		if err != nil {
			return kafka.Producer{}, err
		}
	}
	producer, err := p.client.TakeOver(ctx, transactionalID)
	if err == nil && p.opts.PositionTopic != "" {
		err = p.client.VerifyPositionTopic(ctx, p.opts.PositionTopic)
	}
	if o := p.opts.Letters; err == nil && o != nil {
		err = p.client.VerifyLetterTopics(ctx, o.Topic, o.Index, o.Partitions)
	}
	return producer, err
}

// Abort ends the transaction that the last attempt, which was opened with the transactional ID, has left open, if any. It follows Kill.
func (p *Publisher) Abort(ctx context.Context, transactionalID string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.last.begun {
		return nil
	}
	defer p.client.Close()
	_, err := p.client.TakeOver(ctx, kafka.TransactionalID(p.opts.TransactionalID, transactionalID))
	return err
}

func (p *Publisher) start(life context.Context, transactionalID string, producer kafka.Producer) {
	jobs := make(chan job, 1)
	p.lastSeq.Store(0)
	p.opts.Problems.Report(problemReporter) // what an earlier loop had is over
	l := &loop{
		opts: &p.opts, log: p.log, metrics: p.metrics, mail: p.mail,
		in: p.in, out: p.out, jobs: jobQueue{jobs: jobs}, txn: noTransaction{}, letters: withoutLetters(),
		topics: map[string]*topic{}, transactionalID: transactionalID, producer: producer, stopSeq: noStop, lastSeq: &p.lastSeq,
	}
	_ = l.codec.UnmarshalText([]byte(p.opts.Compression)) // validated
	l.startConn = func(c *brokerConn) {
		ctx, closeNow := context.WithCancel(life)
		c.closeNow = closeNow
		p.wg.Go(func() { c.run(ctx, p.client) })
	}
	p.wg.Go(func() { runJobs(life, p.client, jobs, l.mail) })
	if p.opts.PositionTopic != "" {
		p.startTransactions(life, l)
	}
	if p.opts.Letters != nil {
		p.startLetters(l)
	}
	p.wg.Go(func() { l.run(life) })
}

// startTransactions makes l publish in transactions. The first Commit has no batches.
func (p *Publisher) startTransactions(life context.Context, l *loop) {
	jobs := make(chan job, 1)
	txns := p.coordinator.Transactions(l.transactionalID)
	t := &kafkaTransaction{loop: l, txns: txns, phase: reported, number: 1, careful: p.last.careful}
	l.txn, l.transactional, l.coordinator = t, true, jobQueue{jobs: jobs}
	p.last = t
	p.wg.Go(func() {
		runJobs(life, p.coordinator, jobs, l.mail)
		txns.Close()
	})
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

// Accepted is the number of the last batch that has left the buffer of Send.
func (p *Publisher) Accepted() uint64 { return p.lastSeq.Load() }

// Durable has one answer for each Routed, in any order; neighbours may share one. The first error is final: nothing
// comes after it. The channel is never closed.
func (p *Publisher) Durable() <-chan cdc.Durable { return p.out }

// LastPosition returns the value of the last committed record with key in the topic of positions, before the offset end
// or [kafka.Committed].
func (p *Publisher) LastPosition(ctx context.Context, key string, end int64) (value []byte, found bool, err error) {
	client := kafka.NewClient(p.opts.Kafka)
	defer client.Close()
	return client.LastRecord(ctx, p.opts.PositionTopic, key, end)
}

// Kill ends everything at once: when it returns all connections are closed, nothing more is sent, and no message is
// used any more. Messages without an answer may be published or not. It may be called at any time, from several
// goroutines, and again.
func (p *Publisher) Kill() {
	p.kill()
	p.mu.Lock() // after an Open that is running
	defer p.mu.Unlock()
	p.wg.Wait()
}
