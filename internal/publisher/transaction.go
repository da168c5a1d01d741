package publisher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// phase is a transaction's. The first one begins as reported:
//
//	     bounds, or no                acknowledged,             Commit,                 acknowledged
//	     further batch                relay told                tasks ended
//	collecting ─────────────► full ─────────────► reported ─────────────► recording ─────────────► ending
//	     ▲ │                                                                 ▲                       │
//	     │ └────────────────────────── Commit without batches ──────────────┘                       │
//	     └─────────────────────────────────── committed: the next one ──────────────────────────────┘
//
// A transaction that cannot be committed ends the publisher, in whichever phase it is.
type phase uint8

const (
	collecting phase = iota // batches are accepted and sent
	full                    // nothing is accepted; what was is being acknowledged
	reported                // everything is acknowledged; the relay has been told, and is to call Commit with the position
	recording               // the record with the position is in flight
	ending                  // the coordinator is asked to commit
)

func (ph phase) String() string {
	return [...]string{"collecting", "full", "reported", "recording", "ending"}[ph]
}

// mayBecome is the table of moves.
func (ph phase) mayBecome(next phase) bool {
	switch ph {
	case collecting:
		return next == full || next == recording
	case ending:
		return next == collecting
	default:
		return next == ph+1
	}
}

// transaction is what the loop needs of transactions in Kafka, which make a batch and its position durable together.
type transaction interface {
	hasRoom() bool                                // whether another batch may be accepted
	accepted(r *cdc.Routed)                       // adds a batch
	include(p *partition) bool                    // adds p, which is marked ready then; true: records may be sent to it already
	turn()                                        // in each turn of the loop
	commit(r *commitRequest)                      // answers a call of Commit
	loseProducer(cause error) bool                // ends the publisher, if that is what the need for another producer ID means
	stopAt(seq uint64, err error) (uint64, error) // where the run stops, and why, for a batch that cannot be published
	failed(err error)                             // the run has stopped

	// For letters:
	taskBegan()                                     // keeps the transaction open until the task ends
	takesTasks() bool                               // whether a task may begin
	whenCommitted(fn func(), awaited bool)          // calls fn when what is acknowledged now is committed; awaited: somebody waits for it
	deferUntilCommitted(fn func(*deadLetters)) bool // calls fn when what has begun is committed; false: nothing has, and it is not called
}

// noTransaction is at-least-once delivery: what is acknowledged is committed.
type noTransaction struct{}

func (noTransaction) hasRoom() bool                                { return true }
func (noTransaction) accepted(*cdc.Routed)                         {}
func (noTransaction) include(*partition) bool                      { return true }
func (noTransaction) turn()                                        {}
func (noTransaction) commit(r *commitRequest)                      { r.answer(0, errNoTransaction) }
func (noTransaction) loseProducer(error) bool                      { return false }
func (noTransaction) stopAt(seq uint64, err error) (uint64, error) { return seq, err }
func (noTransaction) failed(error)                                 {}
func (noTransaction) taskBegan()                                   {}
func (noTransaction) takesTasks() bool                             { return true }
func (noTransaction) whenCommitted(fn func(), _ bool)              { fn() }
func (noTransaction) deferUntilCommitted(func(*deadLetters)) bool  { return false }

var errNoTransaction = errors.New("commit without a transaction that has ended")

// to moves t to another phase: nothing else writes it.
func (t *kafkaTransaction) to(next phase) {
	if !t.phase.mayBecome(next) {
		badMove(t.loop.opts, t.loop.log, "transaction", t.phase, next)
	}
	t.phase = next
	if next == collecting { // another one begins
		t.number++
		t.committedAt = t.loop.now
		t.request = nil
		t.begun, t.first, t.events, t.atEnd, t.worked, t.awaited = false, 0, 0, false, false, false
	}
}

// kafkaTransaction publishes batches, and the position behind them, which is sent last. So a position is never committed without
// its events, whatever the coordinator takes for the end of the transaction.
//
// It ends as soon as its partitions are added and no further batch waits, so that it is short at a low rate and carries full
// batches at a high one, or at one of the bounds. There is one at a time: the next batches wait for the
// coordinator's answer. A transaction that cannot be committed ends the publisher with [cdc.ErrRewind].
type kafkaTransaction struct {
	loop   *loop
	txns   *kafka.Transactions
	phase  phase
	number uint64 // a partition belongs to the transaction that has its number
	toAdd  []*partition
	begun  bool // the coordinator was asked to add partitions: something may be open

	first, last uint64 // of the batches; first is 0 for none
	events      int
	began       time.Time // with the first batch
	committedAt time.Time // the one before

	lastError repeatedError  // of the coordinator
	request   *commitRequest // whose position is to be committed
	offset    int64          // of its record
	worked    bool           // tasks have begun in it
	atEnd     bool           // its last batch has no rows; see Options.Whole
	then      []func()       // called when it is committed
	awaited   bool           // somebody waits for that
	// boundary are requests that wait for its end, before which nothing more is accepted.
	boundary []func(*deadLetters)
	// careful is how many more events are published in transactions of one batch; see stopAt. The next attempt takes it over.
	careful int
}

const (
	// txnTime and txnEvents bound a transaction, which has a fixed cost of some milliseconds.
	txnTime   = 200 * time.Millisecond
	txnEvents = 1 << 16
	// wholeTime bounds one that is to be whole. The coordinator aborts it after kafka.TransactionTimeout.
	wholeTime = kafka.TransactionTimeout * 2 / 3
	// heartbeatInterval is the least time between the commits of positions without events.
	heartbeatInterval = time.Second
	// idleInterval is how often the position is committed again while nothing happens, so that the coordinator does not
	// forget the transactional ID, and a relay that was superseded notices it.
	idleInterval = 10 * time.Second
	// startCommits are the commits of a start: the barrier and, maybe much later, the claim. The relay asks for them.
	startCommits = 2
)

// commitRequest is a call of Commit.
type commitRequest struct {
	key, value []byte
	done       chan struct{} // closed
	offset     int64
	err        error
}

func (r *commitRequest) answer(offset int64, err error) {
	r.offset, r.err = offset, err
	close(r.done)
}

// Commit commits everything that was accepted since the last Commit, with a record in the topic of positions, and
// returns the record's offset. It may be called after Open, before the first Send, and then once for each [cdc.Durable]
// that says Cut. It blocks
// until the coordinator has answered. Its error is that of Durable, or that of ctx.
func (p *Publisher) Commit(ctx context.Context, key string, value []byte) (offset int64, err error) {
	req := &commitRequest{key: []byte(key), value: value, done: make(chan struct{})}
	p.mail.post(call(func(l *loop) { l.txn.commit(req) }))
	if err := await(ctx, p, req.done, nil); err != nil {
		return 0, err
	}
	return req.offset, req.err
}

func (t *kafkaTransaction) commit(r *commitRequest) {
	switch {
	case t.loop.failure != nil:
		r.answer(0, t.loop.failure.err)
	case t.phase != reported && (t.phase != collecting || t.first != 0):
		r.answer(0, errNoTransaction)
	default:
		t.request = r
		t.recordPosition()
	}
}

// recordPosition sends the position of a commit, once the tasks of the transaction have ended.
func (t *kafkaTransaction) recordPosition() {
	l := t.loop
	if l.letters.working() {
		return
	}
	t.to(recording)
	m := &cdc.Message{Topic: l.opts.PositionTopic, Key: t.request.key, Value: t.request.value, Partition: 1} // which is partition 0
	// Its seq is before every batch: what stops it stops all.
	l.queue(m, &pendingBatch{kind: ownWrite, open: 1, written: t.recorded})
}

// recorded asks for the commit: the position's record is acknowledged.
func (t *kafkaTransaction) recorded() {
	t.offset = t.loop.topic(t.loop.opts.PositionTopic).partitions[0].end - 1
	t.to(ending)
}

func (t *kafkaTransaction) accepted(r *cdc.Routed) {
	if t.first == 0 {
		t.first, t.began = r.Seq(), t.loop.now
	}
	t.last, t.atEnd = r.Seq(), r.Batch.Rows() == 0
	t.events += len(r.Messages) + len(r.Refused)
}

func (t *kafkaTransaction) hasRoom() bool {
	return t.phase == collecting && len(t.boundary) == 0 && (t.events < txnEvents || t.loop.opts.Whole) && (t.careful <= 0 || t.first == 0)
}

func (t *kafkaTransaction) include(p *partition) bool {
	if p.included == t.number {
		return true
	}
	if p.adding != t.number {
		p.adding = t.number
		t.toAdd = append(t.toAdd, p)
	}
	return false
}

// turn goes on as far as possible.
func (t *kafkaTransaction) turn() {
	l := t.loop
	if l.failure != nil {
		return
	}
	switch {
	case t.request != nil && (t.phase == collecting || t.phase == reported):
		t.recordPosition()
	case t.phase == collecting && t.checkEnd():
		t.to(full)
	}
	if t.phase == full && t.awaited {
		l.letters.openForCommit()
	}
	if t.phase == full && l.pending.open.len() == 0 && !l.letters.working() {
		t.to(reported)
		l.pending.answers.push(cdc.Durable{First: t.last + 1, Last: t.last, Cut: true})
	}
	jobs := &l.coordinator
	switch {
	case jobs.out:
	case l.now.Before(jobs.next):
		l.wakeAt(jobs.next)
	case t.phase == ending:
		producer := l.producer
		jobs.submit(l, func(ctx context.Context, _ *kafka.Client) notice {
			err := t.txns.Commit(ctx, producer)
			return call(func(*loop) { t.ended(err) })
		})
	case len(t.toAdd) > 0:
		jobs.submit(l, t.addJob())
	}
}

// checkEnd reports whether the transaction ends now. If not, it arms the timer, if one ends it.
func (t *kafkaTransaction) checkEnd() bool {
	l := t.loop
	due := t.began.Add(txnTime)
	switch {
	case t.first == 0 && t.number <= startCommits:
		return false
	case t.first == 0 && t.worked:
		return !l.letters.working()
	case t.first == 0:
		due = t.committedAt.Add(idleInterval)
	case l.opts.Whole && t.hasRoom() && !t.atEnd:
		due = t.began.Add(wholeTime)
	case !t.hasRoom(), t.events > 0 && len(t.toAdd) == 0 && !l.coordinator.out && len(l.in) == 0:
		return true
	case t.events == 0:
		due = t.committedAt.Add(heartbeatInterval)
	}
	l.wakeAt(due)
	return !l.now.Before(due)
}

// addJob adds the partitions that are to be added, and with the first ones that of the position.
func (t *kafkaTransaction) addJob() job {
	l := t.loop
	if tp := l.topics[l.opts.PositionTopic]; tp != nil && len(tp.partitions) > 0 {
		t.include(tp.partitions[0])
	}
	producer, parts, byTopic := l.producer, t.toAdd, map[string][]int32{}
	for _, p := range parts {
		byTopic[p.topic.name] = append(byTopic[p.topic.name], p.id)
	}
	t.begun, t.toAdd = true, nil
	return func(ctx context.Context, _ *kafka.Client) notice {
		err := t.txns.Add(ctx, producer, byTopic)
		return call(func(*loop) { t.added(parts, err) })
	}
}

func (t *kafkaTransaction) added(parts []*partition, err error) {
	l := t.loop
	if t.jobDone(err) {
		for _, p := range parts {
			p.included = t.number
			l.markReady(p)
		}
		return
	}
	for _, p := range parts {
		if p.queue.len() > 0 {
			t.toAdd = append(t.toAdd, p)
		} else { // its letters were refused
			p.adding = 0
		}
	}
	if errors.Is(err, sarama.ErrUnknownTopicOrPartition) {
		for _, p := range parts {
			l.wantMetadata(p.topic)
		}
	}
}

// ended goes on when the coordinator has answered the request to commit.
func (t *kafkaTransaction) ended(err error) {
	l := t.loop
	if !t.jobDone(err) || l.failure != nil { // Commit gets the failure
		return
	}
	t.request.answer(t.offset, nil)
	t.careful = max(0, t.careful-t.events) // not one less for a commit of none, such as those of the start
	t.to(collecting)
	for _, fn := range t.then {
		fn()
	}
	boundary := t.boundary
	t.then, t.boundary = nil, nil
	for _, r := range boundary {
		r(l.letters)
	}
	l.letters.startTasks()
}

// jobDone reports whether a job succeeded. If it did not, it is repeated after a pause, or the transaction has failed.
func (t *kafkaTransaction) jobDone(err error) bool {
	l, jobs := t.loop, &t.loop.coordinator
	jobs.out = false
	if err == nil {
		l.passed(&jobs.trouble)
		jobs.backoff, t.lastError = nil, repeatedError{}
		return true
	}
	code, _ := errors.AsType[sarama.KError](err)
	lasted := t.lastError.lasted(code, l.now)
	if code == sarama.ErrConcurrentTransactions && lasted < busyLimit {
		jobs.next = l.now.Add(min(max(lasted, busyFirst), busyLast))
		return false
	}
	l.met(&jobs.trouble, jobs.at, err)
	var stop *cdc.StopError
	switch {
	case errors.Is(err, cdc.ErrRewind):
		l.rewind(err)
	case errors.As(err, &stop):
		if lasted >= l.opts.Timing.Patience {
			t.denied(err)
		}
	default: // a refusal has a patience of its own
		t.lastError = repeatedError{}
		l.logFailure("", err)
	}
	jobs.next = l.after(&jobs.backoff, l.opts.RetryMax)
	return false
}

// denied stops before the first event of a topic that may not be written, or at once. The error has lasted: a new grant does not reach
// every broker at once.
func (t *kafkaTransaction) denied(err error) {
	l := t.loop
	if denied, ok := errors.AsType[*kafka.TopicDenied](err); ok && denied.Topic != l.opts.PositionTopic {
		if tp := l.topics[denied.Topic]; tp != nil { // it may have been found missing meanwhile
			l.refuseRecords(tp, denied)
			return
		}
	}
	l.stopAt(0, nil, err)
}

// rewind ends the publisher: the transaction cannot be committed, or whether it was is not known.
func (l *loop) rewind(cause error) {
	if !errors.Is(cause, cdc.ErrRewind) {
		cause = fmt.Errorf("%w: %w", cdc.ErrRewind, cause)
	}
	l.stopAt(0, nil, cause)
}

// loseProducer aborts what was sent: a transaction ends with its producer.
func (t *kafkaTransaction) loseProducer(cause error) bool {
	if kafka.Fenced(cause) && t.loop.now.Sub(t.began) < kafka.TransactionTimeout*4/5 { // or it was aborted
		cause = fmt.Errorf("%w: %w", cdc.ErrFenced, cause)
	}
	t.loop.rewind(cause)
	return true
}

// stopAt returns the error for a batch, seq, that cannot be published. Events of earlier and of later batches were sent in the same
// transaction, so it is not committed. The next attempt publishes so many events in transactions of one batch: everything before
// the batch is committed then, and the batch, alone in its transaction, ends the run.
func (t *kafkaTransaction) stopAt(seq uint64, err error) (uint64, error) {
	if seq <= t.first {
		return seq, err
	}
	t.careful = t.events + 1
	return 0, fmt.Errorf("%w: events before one that cannot be published are published alone: %w", cdc.ErrRewind, err)
}

func (t *kafkaTransaction) failed(err error) {
	if t.request != nil {
		t.request.answer(0, err)
	}
}

func (t *kafkaTransaction) taskBegan() { t.worked = true }

// takesTasks: also when full, because it may have events that wait for a task.
func (t *kafkaTransaction) takesTasks() bool { return t.phase <= full }

func (t *kafkaTransaction) whenCommitted(fn func(), awaited bool) {
	t.then, t.awaited = append(t.then, fn), t.awaited || awaited
}

func (t *kafkaTransaction) deferUntilCommitted(r func(*deadLetters)) bool {
	if t.phase == collecting && t.first == 0 && !t.worked {
		return false
	}
	t.boundary = append(t.boundary, r)
	return true
}

// A coordinator that has not finished the transaction before answers CONCURRENT_TRANSACTIONS until it has written the commit into all
// partitions. The loop waits, not the job: partitions that get messages meanwhile are added with the others.
const (
	busyFirst, busyLast = time.Millisecond, 20 * time.Millisecond
	// busyLimit makes a failure of it.
	busyLimit = 5 * time.Second
)
