package publisher

import (
	"errors"
	"math"
	"time"

	"github.com/IBM/sarama"
	"github.com/cenkalti/backoff/v5"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// state is a partition's:
//
//	        messages                  request
//	idle ───────────────► ready ─────────────────► inFlight ──────────────► halting
//	 ▲ ▲                    │                        │     its topic halts     │
//	 │ └── nothing to send ─┘                        │                         │ response
//	 │                                               │                         ▼
//	 ├────────────────────── response ───────────────┘                       halted
//	 │                                                                         ▲
//	 ├── backoff over, other leader ── waiting                                 │
//	 │                                    ▲                                    │
//	 └──── error that may pass ───────────┘      idle, ready, waiting ─────────┘
//
// A response takes the partition to idle, and what it says decides what follows: the next batch, the same one at once, or
// waiting. See mayBecome for the table.
type state uint8

const (
	idle     state = iota // nothing to send, or no leader known
	ready                 // in the list of its leader
	inFlight              // its batch is in a request
	waiting               // its batch is sent again at retryAt
	halting               // its batch is in a request, and is the last
	halted                // nothing is sent any more
)

func (s state) String() string {
	return [...]string{"idle", "ready", "inFlight", "waiting", "halting", "halted"}[s]
}

// mayBecome is the table of moves.
func (s state) mayBecome(next state) bool {
	switch s {
	case idle:
		return next == ready || next == waiting || next == halted
	case ready: // again, for another leader
		return next == inFlight || next == idle || next == ready || next == halted
	case inFlight:
		return next == idle || next == halting
	case waiting:
		return next == idle || next == halted
	case halting:
		return next == halted
	default:
		return false
	}
}

// to moves p to another state: nothing else writes it. What belongs to one state is cleared when that ends, and set when the next
// begins.
func (p *partition) to(l *loop, next state) {
	if !p.state.mayBecome(next) {
		badMove(l.opts, l.log, "partition", p.state, next)
	}
	switch p.state {
	case ready:
		p.readyAt = nil
	case waiting:
		p.retryAt = time.Time{}
	default:
	}
	p.state = next
	switch next {
	case ready:
		p.readyAt = p.leader
		p.leader.ready.push(p)
	case waiting:
		p.retryAt = l.after(&p.backoff, l.opts.RetryMax)
		l.waiting = append(l.waiting, p)
		l.wakeAt(p.retryAt)
	default:
	}
}

// sent reports whether p's batch is in a request: its connection may be encoding it.
func (p *partition) sent() bool { return p.state == inFlight || p.state == halting }

// halt sends nothing of p any more.
func (p *partition) halt(l *loop) {
	switch p.state {
	case inFlight:
		p.to(l, halting)
	case halting, halted:
	default:
		p.to(l, halted)
	}
}

var errLeaderless = errors.New("the partition has no leader")

// partition sends the messages of one partition in order: one batch at a time.
type partition struct {
	topic  *topic
	id     int32
	leader *brokerState // nil: unknown
	state  state
	gone   bool // its topic was found missing and is removed
	// readyAt is the broker whose list holds the partition while it is ready; entries in other lists are stale.
	readyAt *brokerState
	// included is the number of the last transaction that has the partition, adding of the last that is to have it.
	included, adding uint64

	// queue holds messages that are not acknowledged; the batch covers the first ones.
	queue fifo[queuedMessage]
	batch *batch
	// producer sends the next batch, and seq is the sequence number of the first message: it moves when a batch is
	// acknowledged.
	producer kafka.Producer
	seq      int32
	// end is the offset behind the last batch that was acknowledged.
	end int64

	failing   trouble // of the attempts, whatever the error codes, or for lack of a leader
	lastError repeatedError
	backoff   *backoff.ExponentialBackOff
	retryAt   time.Time

	// After a batch was rejected as a whole, the next retryCount records are sent in batches of at most retrySize.
	retryCount, retrySize int
}

// queuedMessage is a message in a partition's queue.
type queuedMessage struct {
	m       *cdc.Message
	pending *pendingBatch
	body    int32 // bodySize
	// rejected is why a broker rejects this very record; nil: none does.
	rejected *rejection
}

// weight is the message's size in batches and buffers.
func (e *queuedMessage) weight() int { return e.size() + recordGrowth }

// size is that of the record as the first of its batch.
func (e *queuedMessage) size() int { return varintSize(int(e.body)) + int(e.body) }

// newQueued counts a message as buffered.
func (l *loop) newQueued(m *cdc.Message, pending *pendingBatch) queuedMessage {
	e := queuedMessage{m: m, pending: pending, body: int32(min(bodySize(m), 1<<30))}
	l.buffered += e.weight()
	return e
}

// enqueue adds a message to the queue of its partition.
func (l *loop) enqueue(tp *topic, e queuedMessage) {
	var p *partition
	switch n := int(e.m.Partition); {
	case n > len(tp.partitions):
		l.beyond(tp, e)
		return
	case n > 0:
		p = tp.partitions[n-1]
	case e.m.Key != nil:
		p = tp.partitions[partitionOf(e.m.Key, len(tp.partitions))]
	default:
		p = tp.keyless()
	}
	p.queue.push(e)
	tp.queued++
	if p.state == idle {
		l.markReady(p)
	}
}

// queue queues a message.
func (l *loop) queue(m *cdc.Message, pending *pendingBatch) { l.requeue(l.newQueued(m, pending)) }

// requeue queues a message that is counted already.
func (l *loop) requeue(e queuedMessage) {
	l.wakeAt(l.now) // this turn may have sent already
	if tp := l.topic(e.m.Topic); tp.defers() {
		l.deferUntilKnown(tp, e)
	} else {
		l.enqueue(tp, e)
	}
}

// clearErrors forgets earlier errors.
func (l *loop) clearErrors(p *partition) {
	l.passed(&p.failing)
	p.lastError, p.backoff = repeatedError{}, nil
}

// maxRecords bounds the records of the next batch.
func (p *partition) maxRecords() int {
	if p.retryCount > 0 {
		return min(p.retrySize, maxBatchRecords)
	}
	return maxBatchRecords
}

// markReady lists p at its leader, if it has something to send and no batch in flight or waiting.
func (l *loop) markReady(p *partition) {
	if p.state != idle && p.state != ready || p.queue.len() == 0 ||
		p.batch == nil && p.queue.at(0).pending.seq >= l.stopSeq { // all come after the message that stops the run
		return
	}
	if p.leader == nil {
		if p.state == ready {
			p.to(l, idle)
		}
		l.wantMetadata(p.topic)
		return
	}
	if !l.txn.include(p) {
		return
	}
	if p.state == idle || p.readyAt != p.leader {
		p.to(l, ready)
	}
}

// newBatch makes the next batch of p from the queue and reports whether there is one.
func (l *loop) newBatch(p *partition) bool {
	l.applyPolicy(p)
	n, size, lettered := 0, batchOverhead, l.letters.any()
	limit := min(l.opts.maxBatchBytes, p.topic.limit)
	for n < min(p.queue.len(), p.maxRecords()) {
		e := p.queue.at(n)
		if p.state == halted || e.pending.seq >= l.stopSeq || l.unsendable(p, e) || lettered && l.letters.overtaken(e) {
			break
		}
		if n > 0 && size+e.weight() > limit {
			break
		}
		n, size = n+1, size+e.weight()
	}
	if n == 0 {
		return false
	}
	b := l.pool.get()
	b.fill(p, n, size-batchOverhead)
	if p.producer != l.producer { // renewed since: the batch before is acknowledged
		p.producer, p.seq = l.producer, 0
	}
	b.producer, b.seq = p.producer, p.seq
	p.batch = b
	l.buffered -= b.bytes
	if p.topic.sticky == p {
		p.topic.sticky = nil
	}
	return true
}

// unsendable reports whether e was rejected, or would be; for letters see [deadLetters.overtaken].
func (l *loop) unsendable(p *partition, e *queuedMessage) bool {
	return e.rejected != nil || l.tooLarge(p, e)
}

// tooLarge is known in advance only without compression, and once the topic's limit has been read.
func (l *loop) tooLarge(p *partition, e *queuedMessage) bool {
	if e.size() > hardLimit {
		return true
	}
	return l.codec == 0 && !p.topic.limitStale && e.size()+batchOverhead > p.topic.limit && e.pending.kind != republished // whose limit may have been raised just now
}

// hardLimit is what no limit of a topic can be above: a larger request ends the connection.
const hardLimit = kafka.LargestRecord

// unbatch releases a batch whose records are known not to be appended. They stay in the queue.
func (l *loop) unbatch(p *partition) {
	l.buffered += p.batch.bytes
	l.pool.put(p.batch)
	p.batch = nil
}

// retryLater sends p's batch again after a backoff.
func (l *loop) retryLater(p *partition, cause error) {
	if p.state == halted {
		return
	}
	l.met(&p.failing, l.now, cause)
	p.to(l, waiting)
}

// errNoBlock is a response that lacks a partition of the request.
var errNoBlock = errors.New("the broker's response leaves the partition out")

// apply handles the end of a request.
func (e requestDone) apply(l *loop) {
	c := e.req.conn
	c.open.pop()
	l.openRequests--
	l.openBatches -= len(e.req.batches)
	if e.err == nil {
		c.responded, c.broker.backoff = true, nil
		l.passed(&c.broker.trouble)
		if pause := e.res.ThrottleTime; pause > 0 { // sarama would sleep for that time with the connection locked
			c.broker.pausedUntil = l.now.Add(pause)
		}
	} else {
		l.closeConn(c, e.err)
	}
	for _, b := range e.req.batches {
		l.batchDone(b, e)
	}
}

func (l *loop) batchDone(b *batch, e requestDone) {
	p := b.p
	if p.state == halting {
		p.to(l, halted)
	} else {
		p.to(l, idle)
	}
	switch {
	case p.gone:
		// The messages behind the batch are dropped in any case: if the topic exists again, later ones may already be in it.
		if b.appended(e.res) {
			l.acknowledged(b)
		}
		l.dropPartition(p, errTopicMissing)
	case e.err == nil:
		l.applyBlock(b, e.res.GetBlock(p.topic.name, p.id))
	default:
		b.maybeAppended, p.lastError = true, repeatedError{}
		if n := b.wireBytes(); n > maxRequestBytes && !isTimeout(e.err) && !errors.Is(e.err, errClosed) { // a broker refuses it without an answer
			l.met(&p.failing, l.now, cdc.Fixable("set socket.request.max.bytes of the brokers above that, if it is not",
				"the connection was lost while a request of %d bytes waited for its answer: %w", n, e.err))
		}
		l.metrics.errors.WithLabelValues(p.topic.name, "connection").Inc()
		l.wantMetadata(p.topic)
	}
	l.markReady(p)
}

// applyBlock handles the part of a response about one batch.
func (l *loop) applyBlock(b *batch, block *sarama.ProduceResponseBlock) {
	p := b.p
	if block == nil {
		b.maybeAppended, p.lastError = true, repeatedError{}
		l.retryLater(p, errNoBlock)
		return
	}
	o := classify(block.Err)
	r := reactionTo(o)
	if block.Err != sarama.ErrNoError && block.Err != sarama.ErrDuplicateSequenceNumber {
		l.metrics.errors.WithLabelValues(p.topic.name, reasonOf(block.Err)).Inc()
	}
	// A leader answers so also after it has appended, while it waited for the replicas: all of them may yet have the batch.
	if o == moved || o == absent || o == temporary && block.Err != sarama.ErrNotEnoughReplicas {
		b.maybeAppended = true
	}
	if r.refreshMetadata {
		l.wantMetadata(p.topic)
	}
	lasted := p.lastError.lasted(block.Err, l.now)
	if r.when == atOnce || r.when == repeated && lasted >= l.opts.Timing.Patience {
		r.do(l, b, block)
	} else {
		l.retryLater(p, causeOf(block))
	}
}

// acknowledged removes a batch from the queue and resolves its messages.
func (l *loop) acknowledged(b *batch) {
	p, m := b.p, &b.p.topic.metrics
	if m.published == nil {
		*m = l.metrics.topic(p.topic.name)
	}
	p.end = b.offset + int64(b.n)
	l.letters.acknowledged(b)
	if oldest := p.queue.at(0); oldest.pending.committed != 0 {
		took := max(0, l.now.Sub(time.UnixMicro(oldest.pending.committed))).Seconds()
		m.ack.Observe(took)
		l.metrics.ack.observe(took, oldest.m, l.now)
	}
	pending, run := p.queue.pop().pending, 1
	for range b.n - 1 {
		if e := p.queue.pop(); e.pending == pending {
			run++
		} else {
			l.resolve(pending, run)
			pending, run = e.pending, 1
		}
	}
	l.resolve(pending, run)
	if !p.topic.own {
		m.published.Add(float64(b.n))
	}
	l.metrics.produce.Observe(l.now.Sub(b.req.sentAt).Seconds())
	p.seq = nextSequence(p.seq, b.n)
	p.retryCount, p.retrySize = max(0, p.retryCount-b.n), 2*p.retrySize
	l.clearErrors(p)
	if !p.gone {
		p.topic.lastError = repeatedError{} // whatever metadata says
	}
	p.batch = nil
	p.topic.queued -= b.n
	l.pool.put(b)
}

// batch is the one record batch of a partition that is in flight, or about to be sent again. While it is not known
// whether it was appended it is sent again unchanged: the brokers recognize its sequence number.
//
// The loop fills it and its connection encodes it for each attempt. In between it is handed over with its request.
type batch struct {
	p             *partition
	n             int      // the first n messages of p's queue
	bytes         int      // their weight
	req           *request // of the last attempt
	offset        int64    // of its first record, once it is acknowledged
	maybeAppended bool     // an attempt had no response, or none that tells
	producer      kafka.Producer
	seq           int32

	msgs   []*cdc.Message
	bodies []int32 // sizes of their records' bodies
}

// fill makes the batch of the first n messages of p's queue.
func (b *batch) fill(p *partition, n, bytes int) {
	b.p, b.n, b.bytes = p, n, bytes
	for i := range n {
		e := p.queue.at(i)
		b.msgs = append(b.msgs, e.m)
		b.bodies = append(b.bodies, e.body)
	}
}

// appended reports whether res acknowledges the batch.
func (b *batch) appended(res *sarama.ProduceResponse) bool {
	if res == nil {
		return false
	}
	block := res.GetBlock(b.p.topic.name, b.p.id)
	return block != nil && classify(block.Err) == accepted
}

// reset drops the references to messages, so that an unused batch holds no arena.
func (b *batch) reset() {
	clear(b.msgs)
	*b = batch{msgs: b.msgs[:0], bodies: b.bodies[:0]}
}

// batchPool keeps batches for reuse, by the loop alone.
type batchPool struct{ unused []*batch }

func (s *batchPool) get() *batch {
	n := len(s.unused)
	if n == 0 {
		return &batch{}
	}
	b := s.unused[n-1]
	s.unused = s.unused[:n-1]
	return b
}

func (s *batchPool) put(b *batch) {
	b.reset()
	s.unused = append(s.unused, b)
}

// nextSequence returns the sequence number that follows n records from seq: after 2³¹−1 comes 0
// (org.apache.kafka.common.record.DefaultRecordBatch.incrementSequence).
func nextSequence(seq int32, n int) int32 {
	return int32((int64(seq) + int64(n)) % (math.MaxInt32 + 1))
}
