package publisher

import (
	"context"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// task is something that takes several steps, such as to write a letter's entry and then the letter. Each step calls next
// when it is done.
//
// With exactly-once delivery a task belongs to the group in which it began: the group does not end before it.
type task struct {
	seq   uint64 // of the batch that it is for, or the last one that was accepted
	steps []func(l *loop, t *task)
}

// own is a record in a topic of the relay's own.
type own struct {
	message   cdc.Message
	partition int32
}

// begin starts a task of the loop's own.
func (l *loop) begin(t *task) {
	l.letters.open++
	if l.group != nil {
		l.group.worked = true
	}
	l.next(t)
}

// submitTask starts a task that was asked for, as soon as a group may begin something: also a full one, which may have events
// that wait for it.
func (l *loop) submitTask(t *task) {
	if l.group != nil && l.group.phase > full {
		l.letters.waiting = append(l.letters.waiting, t)
		return
	}
	t.seq = l.lastSeq.Load()
	l.begin(t)
}

// startTasks starts those that waited for a group.
func (l *loop) startTasks() {
	waiting := l.letters.waiting
	l.letters.waiting = nil
	for _, t := range waiting {
		l.submitTask(t)
	}
}

// next does t's next step.
func (l *loop) next(t *task) {
	if len(t.steps) == 0 {
		l.letters.open--
		return
	}
	step := t.steps[0]
	t.steps = t.steps[1:]
	step(l, t)
}

// write returns a step that writes records into the relay's own topics.
func write(records ...own) func(*loop, *task) {
	return func(l *loop, t *task) {
		if len(records) == 0 {
			l.next(t)
			return
		}
		pending := &pendingBatch{seq: t.seq, open: len(records), then: func(l *loop) { l.next(t) }}
		for i := range records {
			l.queue(&records[i].message, pending, records[i].partition+1)
		}
	}
}

// queue queues a message. partition is 0 for the key's, else one more than the partition.
func (l *loop) queue(m *cdc.Message, pending *pendingBatch, partition int32) {
	e := entry{m: m, pending: pending, body: int32(min(bodySize(m), 1<<30)), partition: partition}
	l.buffered += e.weight()
	l.requeue(e)
}

// requeue queues an entry that is counted already.
func (l *loop) requeue(e entry) {
	l.wakeAt(l.now) // this turn may have sent already
	tp := l.topic(e.m.Topic)
	if len(tp.partitions) == 0 || tp.grown != nil || tp.err != nil {
		l.park(tp, e)
	} else {
		l.enqueue(tp, e)
	}
}

// isOwn reports whether e is a record of the relay's own, without which it cannot go on.
func (e *entry) isOwn() bool { return e.pending.then != nil && e.pending.item == nil }

// writeRequest is a call of Write.
type writeRequest struct {
	records []own
	done    chan struct{} // closed
}

func (r *writeRequest) apply(l *loop) {
	l.submitTask(&task{steps: []func(*loop, *task){
		write(r.records...),
		func(l *loop, t *task) {
			l.next(t)
			l.closeWhenCommitted(r.done)
		},
	}})
}

// whenCommitted calls fn when what is acknowledged now is also committed.
func (l *loop) whenCommitted(fn func()) {
	if l.group == nil {
		fn()
		return
	}
	l.group.then = append(l.group.then, fn)
}

// closeWhenCommitted closes done when what is acknowledged now is also committed.
func (l *loop) closeWhenCommitted(done chan struct{}) {
	if l.group != nil {
		l.group.awaited = true
	}
	l.whenCommitted(func() { close(done) })
}

// write writes records into the relay's own topics and returns when they are durable.
func (p *Publisher) write(ctx context.Context, records ...own) error {
	if len(records) == 0 {
		return nil
	}
	req := &writeRequest{records, make(chan struct{})}
	p.mail.post(req)
	return await(ctx, p, req.done)
}

// await waits for an answer of the loop.
func await(ctx context.Context, p *Publisher, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.life().Done():
		return ErrKilled
	}
}
