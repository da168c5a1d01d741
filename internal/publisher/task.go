package publisher

import (
	"context"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// task is a sequence of steps, such as to write a letter's entry and then the letter.
//
// With exactly-once delivery a task belongs to the transaction in which it began, which does not end before it.
type task struct {
	seq   uint64 // of the batch that it is for, or the last one that was accepted
	steps []step
}

// step calls next when it is done.
type step func(s *deadLetters, t *task)

// begin starts a task of the loop's own.
func (s *deadLetters) begin(t *task) {
	s.open++
	s.loop.txn.taskBegan()
	s.next(t)
}

// submitTask starts a task that was asked for, as soon as the transaction takes it.
func (s *deadLetters) submitTask(t *task) {
	if !s.loop.txn.takesTasks() {
		s.waiting = append(s.waiting, t)
		return
	}
	t.seq = s.loop.lastSeq.Load()
	s.begin(t)
}

// startTasks starts those that waited for a transaction.
func (s *deadLetters) startTasks() {
	waiting := s.waiting
	s.waiting = nil
	for _, t := range waiting {
		s.submitTask(t)
	}
}

// next does t's next step.
func (s *deadLetters) next(t *task) {
	if len(t.steps) == 0 {
		s.open--
		return
	}
	step := t.steps[0]
	t.steps = t.steps[1:]
	step(s, t)
}

// write returns a step that writes records into the relay's own topics. Their keys do not decide the partition: others may have added some,
// which nobody reads.
func write(records ...cdc.Message) step {
	return func(s *deadLetters, t *task) {
		if len(records) == 0 {
			s.next(t)
			return
		}
		pending := &pendingBatch{kind: ownWrite, seq: t.seq, open: len(records), written: func() { s.next(t) }}
		for i := range records {
			s.loop.queue(&records[i], pending)
		}
	}
}

// committed returns the last step of a task that somebody waits for. It closes done when what the task wrote is committed.
func committed(done chan struct{}) step {
	return func(s *deadLetters, t *task) {
		s.next(t)
		s.loop.txn.whenCommitted(func() { close(done) }, true)
	}
}

// write writes records into the relay's own topics and returns when they are durable.
func (p *Publisher) write(ctx context.Context, records ...cdc.Message) error {
	if len(records) == 0 {
		return nil
	}
	return p.ask(ctx, func(s *deadLetters, done chan struct{}) {
		s.submitTask(&task{steps: []step{write(records...), committed(done)}})
	})
}

// await waits for an answer of the loop, or for its failure.
func await(ctx context.Context, p *Publisher, done <-chan struct{}, failed <-chan cdc.Durable) error {
	select {
	case <-done:
		return nil
	case d := <-failed:
		return d.Err
	case <-ctx.Done():
		return ctx.Err()
	case <-p.life().Done():
		return ErrKilled
	}
}

// ask asks the loop's letters for something, and waits until they close done.
func (p *Publisher) ask(ctx context.Context, what func(s *deadLetters, done chan struct{})) error {
	return p.askUnless(ctx, nil, what)
}

// askUnless is ask that ends with a failure of the publisher. Before the first batch nobody else hears of one.
func (p *Publisher) askUnless(ctx context.Context, failed <-chan cdc.Durable, what func(s *deadLetters, done chan struct{})) error {
	done := make(chan struct{})
	p.mail.post(call(func(l *loop) { what(l.letters, done) }))
	return await(ctx, p, done, failed)
}
