package publisher

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
	"github.com/cenkalti/backoff/v5"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// loop owns all state of topics, partitions and brokers. Only its own goroutine uses it.
type loop struct {
	opts      *Options
	codec     sarama.CompressionCodec
	log       *slog.Logger
	metrics   *metrics
	mail      *mailbox
	in        <-chan *cdc.Routed
	out       chan<- cdc.Durable
	startConn func(c *brokerConn) // runs it in a goroutine of its own, until the publisher is killed

	now      time.Time // of this turn
	timer    *time.Timer
	wake     time.Time // when the next turn is due, see wakeAt; zero: with the next notice
	armed    time.Time // what the timer is set to
	spare    []notice
	pending  pendingBatches
	pool     batchPool
	buffered int // bytes of queued messages that are in no batch
	topics   map[string]*topic
	brokers  []*brokerState
	waiting  []*partition
	producer kafka.Producer
	// transactionalID is "" for none.
	transactionalID string

	jobs         jobQueue // for a producer ID, or for the metadata of wanted topics
	wanted       []*topic
	producerLost bool // no batch is sent until there is a new producer ID
	fenced       bool // another publisher has taken over
	renewalLost  bool // a renewal may have succeeded although its response was lost
	renewAt      time.Time
	openRequests int // requests that are with connections
	openBatches  int // batches in them
	refreshAt    time.Time
	leaveAt      time.Time // when metadata may next be requested of another broker

	txn     transaction
	letters *deadLetters
	// transactional says that requests belong to transactions; false with at-least-once delivery, also under a transactional ID.
	transactional bool
	// coordinator has the jobs of transactions, if there are any.
	coordinator jobQueue
	// lastSeq is that of the relay's batch that was accepted last.
	lastSeq *atomic.Uint64

	failure *failure
	stopSeq uint64 // the relay's batches from this one on are not sent

	unreported bool // problems have changed
	reportedAt time.Time
}

func (l *loop) run(ctx context.Context) {
	l.timer = time.NewTimer(time.Hour)
	defer l.timer.Stop()
	l.now = l.opts.Timing.Now()
	l.refreshAt, l.renewAt = l.now.Add(l.opts.Timing.MetadataInterval), l.now.Add(l.opts.Timing.RenewInterval)
	for l.wait(ctx) {
		l.spare = l.mail.take(l.spare)
		for _, n := range l.spare {
			n.apply(l)
		}
		l.turn()
	}
}

// wait returns when something has happened, and false when the publisher is killed.
func (l *loop) wait(ctx context.Context) bool {
	// Nothing is received while enough is buffered, or after a failure, and nothing is sent without an answer.
	var in <-chan *cdc.Routed
	if l.hasRoom() {
		in = l.in
	}
	var out chan<- cdc.Durable
	var next cdc.Durable
	if l.pending.answers.len() > 0 {
		out, next = l.out, *l.pending.answers.at(0)
	}
	l.setTimer()
	var r *cdc.Routed
	select {
	case <-ctx.Done():
		return false
	case r = <-in:
	case out <- next:
		l.pending.answers.pop()
	case <-l.mail.wake:
	case <-l.timer.C:
		l.armed = time.Time{}
	}
	// What waits for a time arms the timer again in each turn, or in what happens before it.
	l.now, l.wake = l.opts.Timing.Now(), time.Time{}
	if r != nil {
		l.accept(r)
	}
	for r != nil && l.hasRoom() { // what has been sent already shares requests
		select {
		case r = <-in:
			l.accept(r)
		default:
			r = nil
		}
	}
	return true
}

func (l *loop) hasRoom() bool {
	return l.buffered < l.maxBuffered() && l.failure == nil && l.txn.hasRoom() && l.letters.hasRoom()
}

// bufferPerPartition is what may be buffered for each partition with messages. A batch costs a broker as much as about
// ten of its records, so many partitions need a larger buffer than few.
const bufferPerPartition = 4 << 10

// maxBuffered is how many bytes of messages may be buffered. The relay's window is a bound too: it includes them.
func (l *loop) maxBuffered() int {
	busy := l.openBatches
	for _, b := range l.brokers {
		busy += b.ready.len()
	}
	return l.opts.maxBuffered + busy*bufferPerPartition
}

// accept queues the messages of a Routed.
func (l *loop) accept(r *cdc.Routed) {
	pending := l.pending.add(r)
	l.lastSeq.Store(pending.seq)
	l.txn.accepted(r)
	var tp *topic
	refused, lettered := r.Refused, l.letters.any()
	for i := range r.Messages {
		m := &r.Messages[i]
		for ; len(refused) > 0 && refused[0].Row < m.Row; refused = refused[1:] {
			l.letters.refuse(pending, &refused[0])
			lettered = true
		}
		if lettered && l.letters.divert(pending, m) {
			continue
		}
		if tp == nil || tp.name != m.Topic {
			tp = l.topic(m.Topic)
		}
		if e := l.newQueued(m, pending); tp.defers() {
			l.deferUntilKnown(tp, e)
			lettered = l.letters.any() // it may have become one
		} else {
			l.enqueue(tp, e)
		}
	}
	for i := range refused {
		l.letters.refuse(pending, &refused[i])
	}
	l.resolve(pending, 1)
}

// turn does what is due and sends what is ready.
func (l *loop) turn() {
	l.retryDue()
	l.refresh()
	l.submitDue()
	if !l.producerLost {
		for _, b := range l.brokers {
			l.sendReady(b)
			l.checkSlow(b) // also what was sent just now: nothing else may wake the loop
		}
	}
	l.letters.turn()
	l.txn.turn()
	l.reportFailure()
	l.reportProblems()
}

// retryDue marks partitions as ready whose backoff is over.
func (l *loop) retryDue() {
	still := l.waiting[:0]
	for _, p := range l.waiting {
		switch {
		case p.state != waiting:
		case p.retryAt.After(l.now):
			l.wakeAt(p.retryAt)
			still = append(still, p)
		default:
			p.to(l, idle)
			l.markReady(p)
		}
	}
	clear(l.waiting[len(still):])
	l.waiting = still
}

// refresh requests partition counts and limits again from time to time.
func (l *loop) refresh() {
	if l.now.Before(l.refreshAt) {
		l.wakeAt(l.refreshAt)
		return
	}
	l.refreshAt = l.now.Add(l.opts.Timing.MetadataInterval)
	for name, tp := range l.topics {
		if tp.missing() && l.now.Sub(tp.askedAt) >= l.opts.Timing.MetadataInterval/2 { // no message has come for it
			delete(l.topics, name)
			continue
		}
		tp.limitStale = true
		l.wantMetadata(tp)
	}
}

// badMove reports that a state machine makes a move that its table does not have. It is made all the same: a relay that ends
// loses no event, but one that hangs does not publish.
func badMove(opts *Options, log *slog.Logger, machine string, from, to fmt.Stringer) {
	if opts.Strict {
		panic(fmt.Sprintf("a %s moves from %s to %s", machine, from, to))
	}
	log.Error("a state changes in a way that it must not: please report this", slog.String("of", machine),
		slog.String("from", from.String()), slog.String("to", to.String()))
}

// wakeAt schedules the next turn at t at the latest.
func (l *loop) wakeAt(t time.Time) {
	if l.wake.IsZero() || t.Before(l.wake) {
		l.wake = t
	}
}

func (l *loop) setTimer() {
	if l.wake.IsZero() || l.armed.After(l.now) && !l.wake.Before(l.armed) {
		return // a turn too early does no harm
	}
	l.armed = l.wake
	l.timer.Reset(max(0, l.wake.Sub(l.now)))
}

func (l *loop) newBackoff() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval: l.opts.RetryInitial, MaxInterval: l.opts.RetryMax,
		Multiplier: 2, RandomizationFactor: 0.5,
	}
}

// after is the end of b's next pause; b is begun if it is nil. The jitter does not exceed the longest pause.
func (l *loop) after(b **backoff.ExponentialBackOff, longest time.Duration) time.Time {
	if *b == nil {
		*b = l.newBackoff()
	}
	(*b).MaxInterval = longest
	return l.now.Add(min((*b).NextBackOff(), longest))
}

// noStop is a stopSeq beyond every batch.
const noStop = math.MaxUint64

// kind is what messages are of.
type kind uint8

const (
	relayed     kind = iota // a Routed of the relay, which gets an answer
	ownWrite                // a write of the publisher's own, without which it cannot go on
	republished             // a letter that is published again, which fails alone
)

// pendingBatch is what messages in queues belong to: it follows them until the last one is acknowledged or dropped.
type pendingBatch struct {
	kind kind
	seq  uint64 // of the batch, or of the one that was accepted last
	// open counts the messages that are not resolved, and of a Routed one until all of them are queued.
	open int

	// committed is when the first transaction of a Routed was committed, in Unix microseconds; 0: unknown.
	committed int64
	routed    *cdc.Routed

	written func() // of a write: called when nothing is open any more
	item    *item  // the letter
}

// resolve marks n messages of b as acknowledged or dropped.
func (l *loop) resolve(b *pendingBatch, n int) {
	switch b.kind {
	case relayed:
		l.pending.resolve(b, n)
	case ownWrite:
		if b.open -= n; b.open == 0 {
			b.written()
		}
	case republished:
		b.item.request.itemDone()
	}
}

// pendingBatches holds the batches without an answer, in the order of Send.
type pendingBatches struct {
	open   fifo[*pendingBatch]
	unused []*pendingBatch
	// answers wait for the relay to receive them.
	answers fifo[cdc.Durable]
}

func (p *pendingBatches) add(r *cdc.Routed) *pendingBatch {
	b := &pendingBatch{}
	if n := len(p.unused); n > 0 {
		b, p.unused = p.unused[n-1], p.unused[:n-1]
	}
	b.seq, b.open, b.committed, b.routed = r.Seq(), len(r.Messages)+len(r.Refused)+1, 0, r
	if len(r.Batch.Txs) > 0 {
		b.committed = r.Batch.Txs[0].Time
	}
	p.open.push(b)
	return b
}

// resolve marks n messages of b as acknowledged or dropped, and answers b when none is left.
func (p *pendingBatches) resolve(b *pendingBatch, n int) {
	b.open -= n
	if b.open > 0 {
		return
	}
	b.routed = nil
	p.answer(b.seq)
	for p.open.len() > 0 && (*p.open.at(0)).open == 0 {
		p.unused = append(p.unused, p.open.pop())
	}
}

// answer adds an answer, which neighbours share.
func (p *pendingBatches) answer(seq uint64) {
	if n := p.answers.len(); n > 0 {
		if last := p.answers.at(n - 1); last.Err == nil && !last.Cut && last.Last+1 == seq {
			last.Last = seq
			return
		}
	}
	p.answers.push(cdc.Durable{First: seq, Last: seq})
}

// oldest returns the sequence number of the first batch that is not resolved.
func (p *pendingBatches) oldest() (seq uint64, found bool) {
	if p.open.len() == 0 {
		return 0, false
	}
	return (*p.open.at(0)).seq, true
}

// notice is something that happened outside the loop.
type notice interface{ apply(l *loop) }

// call is a notice that has nothing to keep.
type call func(l *loop)

func (fn call) apply(l *loop) { fn(l) }

// mailbox passes notices to the loop. Posting never blocks: sarama's goroutines post, and must go on reading. The notices
// in it are bounded by the requests that are out.
type mailbox struct {
	wake chan struct{}

	mu      sync.Mutex
	notices []notice
}

func newMailbox() *mailbox { return &mailbox{wake: make(chan struct{}, 1)} }

func (m *mailbox) post(n notice) {
	m.mu.Lock()
	m.notices = append(m.notices, n)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// take returns the posted notices, and keeps the memory of spare for later ones.
func (m *mailbox) take(spare []notice) []notice {
	clear(spare)
	m.mu.Lock()
	defer m.mu.Unlock()
	notices := m.notices
	m.notices = spare[:0]
	return notices
}
