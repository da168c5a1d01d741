package publisher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"
	"github.com/cenkalti/backoff/v5"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// phase is a group's. The first group begins as reported:
//
//	     bounds, or no                acknowledged,             Commit,                 acknowledged
//	     further batch                relay told                tasks ended
//	collecting ─────────────► full ─────────────► reported ─────────────► recording ─────────────► ending
//	     ▲ │                                                                 ▲                       │
//	     │ └────────────────────────── Commit without batches ──────────────┘                       │
//	     └─────────────────────────────────── committed: the next group ────────────────────────────┘
//
// A group that cannot be committed ends the publisher, in whichever phase it is.
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

// to moves g to another phase: nothing else writes it.
func (g *group) to(l *loop, next phase) {
	if !g.phase.mayBecome(next) {
		l.badMove("transaction", g.phase, next)
	}
	g.phase = next
	if next == collecting { // another group begins
		g.number++
		g.committedAt = l.now
		g.request, g.record = nil, nil
		g.first, g.events, g.worked, g.awaited = 0, 0, false, false
	}
}

// group is what one transaction in Kafka publishes: batches, and the position behind them, which is sent last. So a
// position is never committed without its events, whatever the coordinator takes for the end of the transaction.
//
// It ends as soon as its partitions are added and no further batch waits, so that it is short at a low rate and carries full
// batches at a high one, or at one of the bounds. There is one at a time: the next batches wait for the
// coordinator's answer. A group that cannot be committed ends the publisher with [cdc.ErrRewind].
type group struct {
	topic  string // of positions
	txns   *kafka.Transactions
	jobs   chan<- job
	phase  phase
	number uint64 // a partition belongs to the group that has its number
	toAdd  []*partition

	first, last uint64 // of the batches; first is 0 for none
	events      int
	began       time.Time // with the first batch
	committedAt time.Time // the group before

	// One job is out at a time.
	jobOut    bool
	nextJobAt time.Time
	busy      busy
	retry     *backoff.ExponentialBackOff
	deniedAt  time.Time // of the first refusal in a row
	trouble   trouble   // of the jobs
	jobAt     time.Time // when the last one was submitted
	request   *commitRequest
	record    *pendingBatch
	worked    bool     // tasks have begun in it
	then      []func() // called when it is committed
	awaited   bool     // somebody waits for that
	// boundary are requests that wait for its end, before which nothing more is accepted.
	boundary []*closeRequest
	offset   int64 // of the record
	// careful is how many more events are published in groups of one batch; see stopInGroup.
	careful *int
}

const (
	// groupTime and groupEvents bound a group. A transaction has a fixed cost of some milliseconds.
	groupTime   = 200 * time.Millisecond
	groupEvents = 1 << 16
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
	done       chan commitResult // capacity 1
}

type commitResult struct {
	offset int64
	err    error
}

// Commit commits everything that was accepted since the last Commit, with a record in the topic of positions, and
// returns the record's offset. It may be called after Open, before the first Send, and then once for each [cdc.Durable]
// that says Cut. It blocks
// until the coordinator has answered. Its error is that of Durable, or that of ctx.
func (p *Publisher) Commit(ctx context.Context, key string, value []byte) (offset int64, err error) {
	req := &commitRequest{key: []byte(key), value: value, done: make(chan commitResult, 1)}
	p.mail.post(req)
	select {
	case res := <-req.done:
		return res.offset, res.err
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-p.life().Done():
		return 0, ErrKilled
	}
}

func (r *commitRequest) apply(l *loop) {
	g := l.group
	if l.failure != nil {
		r.done <- commitResult{0, l.failure.err}
		return
	}
	if g.phase != reported && (g.phase != collecting || g.first != 0) {
		r.done <- commitResult{0, errors.New("commit without a group that has ended")}
		return
	}
	g.request = r
	l.recordPosition()
}

// recordPosition sends the position of a commit, once the tasks of the group have ended.
func (l *loop) recordPosition() {
	g := l.group
	if l.working() {
		return
	}
	g.to(l, recording)
	g.record = &pendingBatch{open: 1, then: func(*loop) {}} // its seq is before every batch: what stops it stops all
	l.queue(&cdc.Message{Topic: g.topic, Key: g.request.key, Value: g.request.value}, g.record, 1)
}

// working reports whether tasks of the group have not ended.
func (l *loop) working() bool { return l.letters != nil && l.letters.open > 0 }

// accepted adds a batch.
func (g *group) accepted(r *cdc.Routed, now time.Time) {
	if g.first == 0 {
		g.first, g.began = r.Seq(), now
	}
	g.last = r.Seq()
	g.events += len(r.Messages) + len(r.Refused)
}

// hasRoom reports whether the group accepts another batch.
func (g *group) hasRoom() bool {
	return g.phase == collecting && len(g.boundary) == 0 && g.events < groupEvents && (*g.careful <= 0 || g.first == 0)
}

// includes reports whether records may be sent to p. If not, p is added to the transaction and then marked ready.
func (l *loop) includes(p *partition) bool {
	g := l.group
	if g == nil || p.group == g.number {
		return true
	}
	if p.adding != g.number {
		p.adding = g.number
		g.toAdd = append(g.toAdd, p)
	}
	return false
}

// stepGroup goes on with the group as far as possible.
func (l *loop) stepGroup() {
	g := l.group
	if g == nil || l.failure != nil {
		return
	}
	switch {
	case g.request != nil && g.record == nil:
		l.recordPosition()
	case g.phase == collecting && l.groupEnds():
		g.to(l, full)
	}
	if g.phase == full {
		l.openForCommit()
	}
	if g.phase == full && l.window.open.len() == 0 && !l.working() {
		g.to(l, reported)
		l.window.answers.push(cdc.Durable{First: g.last + 1, Last: g.last, Cut: true})
	}
	switch {
	case g.jobOut:
	case l.now.Before(g.nextJobAt):
		l.wakeAt(g.nextJobAt)
	case g.phase == ending:
		l.submitGroup(endJob{g.txns, l.producer})
	case len(g.toAdd) > 0:
		l.submitGroup(l.addJob())
	}
}

// groupEnds reports whether the group ends now, or when to look again.
func (l *loop) groupEnds() bool {
	g := l.group
	due := g.began.Add(groupTime)
	switch {
	case g.first == 0 && g.number <= startCommits:
		return false
	case g.first == 0 && g.worked:
		return !l.working()
	case g.first == 0:
		due = g.committedAt.Add(idleInterval)
	case !g.hasRoom(), g.events > 0 && len(g.toAdd) == 0 && !g.jobOut && len(l.in) == 0:
		return true
	case g.events == 0:
		due = g.committedAt.Add(heartbeatInterval)
	}
	l.wakeAt(due)
	return !l.now.Before(due)
}

func (l *loop) submitGroup(j job) {
	l.group.jobOut, l.group.jobAt = true, l.now
	l.group.jobs <- j // has room for the one that may be out
}

// addJob adds partitions to the transaction.
type addJob struct {
	txns     *kafka.Transactions
	producer kafka.Producer
	parts    []*partition
	byTopic  map[string][]int32
}

type added struct {
	job addJob
	err error
}

// addJob takes the partitions that are to be added, and with the first ones that of the position.
func (l *loop) addJob() addJob {
	g := l.group
	if tp := l.topics[g.topic]; tp != nil && len(tp.partitions) > 0 {
		l.includes(tp.partitions[0])
	}
	j := addJob{g.txns, l.producer, g.toAdd, map[string][]int32{}}
	for _, p := range g.toAdd {
		j.byTopic[p.topic.name] = append(j.byTopic[p.topic.name], p.id)
	}
	g.toAdd = nil
	return j
}

func (j addJob) run(ctx context.Context, _ *kafka.Client) event {
	return added{j, j.txns.Add(ctx, j.producer, j.byTopic)}
}

func (e added) apply(l *loop) {
	g := l.group
	if l.groupJobDone(e.err) {
		for _, p := range e.job.parts {
			p.group = g.number
			l.markReady(p)
		}
		return
	}
	for _, p := range e.job.parts {
		if p.queue.len() > 0 {
			g.toAdd = append(g.toAdd, p)
		} else { // its letters were refused
			p.adding = 0
		}
	}
	if errors.Is(e.err, sarama.ErrUnknownTopicOrPartition) {
		for _, p := range e.job.parts {
			l.wantMetadata(p.topic)
		}
	}
}

// endJob commits the transaction.
type endJob struct {
	txns     *kafka.Transactions
	producer kafka.Producer
}

type ended struct{ err error }

func (j endJob) run(ctx context.Context, _ *kafka.Client) event {
	return ended{j.txns.Commit(ctx, j.producer)}
}

func (e ended) apply(l *loop) {
	g := l.group
	if !l.groupJobDone(e.err) || l.failure != nil { // Commit gets the failure
		return
	}
	if g.first != 0 {
		l.metrics.transaction.WithLabelValues().Observe(l.now.Sub(g.began).Seconds())
	}
	g.request.done <- commitResult{offset: g.offset}
	*g.careful = max(0, *g.careful-max(1, g.events))
	g.to(l, collecting)
	for _, fn := range g.then {
		fn()
	}
	boundary := g.boundary
	g.then, g.boundary = nil, nil
	for _, r := range boundary {
		r.apply(l)
	}
	if l.letters != nil {
		l.startTasks()
	}
}

// groupJobDone reports whether a job succeeded. If it did not, it is repeated after a pause, or the group has failed.
func (l *loop) groupJobDone(err error) bool {
	g := l.group
	g.jobOut = false
	if errors.Is(err, sarama.ErrConcurrentTransactions) {
		if at, ok := g.busy.again(l.now); ok {
			g.nextJobAt = at
			return false
		}
	}
	g.busy = busy{}
	if err == nil {
		l.noteSuccess()
		l.passed(&g.trouble)
		g.retry, g.deniedAt = nil, time.Time{}
		return true
	}
	l.met(&g.trouble, l.now, err)
	var stop *cdc.StopError
	switch {
	case errors.Is(err, cdc.ErrRewind):
		l.rewind(err)
	case errors.As(err, &stop):
		l.groupDenied(err)
	default:
		g.deniedAt = time.Time{}
		l.noteFailure("", err)
	}
	if g.retry == nil {
		g.retry = l.newBackoff()
	}
	g.nextJobAt = l.after(g.retry)
	return false
}

// groupDenied stops before the first event of a topic that may not be written, or at once, if the error lasts: a new grant
// does not reach every broker at once.
func (l *loop) groupDenied(err error) {
	g := l.group
	if g.deniedAt.IsZero() {
		g.deniedAt = l.now
	}
	if l.now.Sub(g.deniedAt) < l.opts.Timing.Patience {
		return
	}
	if denied, ok := errors.AsType[*kafka.TopicDenied](err); ok && denied.Topic != g.topic {
		if tp := l.topics[denied.Topic]; tp != nil { // it may have been found missing meanwhile
			l.refuseRecords(tp, denied)
			return
		}
	}
	l.stopAt(0, nil, err)
}

// recorded goes on if the batch has the position's record, which is acknowledged now.
func (l *loop) recorded(b *batch) bool {
	if l.group == nil || b.p.topic.name != l.group.topic {
		return false
	}
	l.group.offset = b.offset
	l.group.to(l, ending)
	return true
}

// rewind ends the publisher: the group cannot be committed, or whether it was is not known.
func (l *loop) rewind(cause error) {
	if !errors.Is(cause, cdc.ErrRewind) {
		cause = fmt.Errorf("%w: %w", cdc.ErrRewind, cause)
	}
	l.stopAt(0, nil, cause)
}

// stopInGroup returns the error for a group that has a batch, seq, that cannot be published. Events of earlier and of
// later batches were sent in the same transaction, so it is not committed. The next attempt publishes so many events in
// groups of one batch: everything before the batch is committed then, and the batch, alone in its group, ends the run.
func (l *loop) stopInGroup(seq uint64, err error) (uint64, error) {
	g := l.group
	if g == nil || seq <= g.first {
		return seq, err
	}
	*g.careful = g.events + 1
	return 0, fmt.Errorf("%w: events before one that cannot be published are published alone: %w", cdc.ErrRewind, err)
}
