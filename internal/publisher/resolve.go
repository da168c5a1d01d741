package publisher

import (
	"context"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
)

// # Resolving letters
//
// Letters are published, or dropped, and then the index says so; both are one transaction with exactly-once delivery.
// New events of a key that is closed wait until its last letter is resolved, so that a busy key comes to an end. What follows, the
// tombstones, is the caller's: a relay that starts in between finds entries that are done, and writes them. Those of a letter that was
// dropped wait until no start can read its row again.

// resolveRequest is a call of Resolve.
type resolveRequest struct {
	items     []*item
	open      int    // items that are being published, and one until all of them are queued
	published func() // called when there is none
}

// item is a letter of a resolveRequest.
type item struct {
	deadletter.Resolution

	request *resolveRequest
	outcome deadletter.Outcome
}

// Resolve publishes letters in their order, or drops them, and returns an outcome for each when the index has it. Those of a key must
// be the first that it has, unless they are dropped. The messages must not change until it returns.
func (p *Publisher) Resolve(ctx context.Context, letters []deadletter.Resolution) ([]deadletter.Outcome, error) {
	r := &resolveRequest{}
	for i := range letters {
		r.items = append(r.items, &item{Resolution: letters[i], request: r})
	}
	err := p.ask(ctx, func(s *deadLetters, done chan struct{}) {
		s.submitTask(&task{steps: []step{r.publish, r.record, r.release, committed(done)}})
	})
	if err != nil {
		return nil, err
	}
	outcomes := make([]deadletter.Outcome, len(r.items))
	for i, it := range r.items {
		outcomes[i] = it.outcome
	}
	return outcomes, nil
}

// publish queues the messages.
func (r *resolveRequest) publish(s *deadLetters, t *task) {
	for _, it := range r.items { // all of them first: what is accepted meanwhile may be behind the last
		it.outcome.Skipped = !s.index.Begin(it.ID, it.Message == nil && it.Refused == nil)
	}
	r.open, r.published = 1, func() { s.next(t) }
	for _, it := range r.items {
		switch {
		case it.outcome.Skipped:
		case it.Refused != nil:
			r.open++
			s.failed(it, rejection{reason: it.Reason, err: it.Refused})
		case it.Message != nil:
			r.open++
			s.loop.queue(it.Message, &pendingBatch{kind: republished, seq: t.seq, item: it})
		}
	}
	r.itemDone()
}

// itemDone notes that an item was published or has failed.
func (r *resolveRequest) itemDone() {
	if r.open--; r.open == 0 {
		r.published()
	}
}

// failed notes that an item cannot be published: it, and what follows it in its key, stay.
func (s *deadLetters) failed(it *item, why rejection) {
	if s.index.Precedes(it.Hold, it.Order, true) {
		it.outcome.Skipped = true
		s.index.Stored(it.ID)
	} else {
		it.outcome = deadletter.Outcome{Reason: why.reason, Err: why.err}
		s.index.Failed(it.ID, why.reason, s.loop.now, it.Attempts)
	}
	it.request.itemDone()
}

// record writes what became of the items into the index.
func (r *resolveRequest) record(s *deadLetters, t *task) {
	var records []cdc.Message
	for _, it := range r.items {
		var value []byte
		switch {
		case it.outcome.Skipped:
			continue
		case it.outcome.Err != nil:
			value = it.Failed(it.outcome.Reason, it.outcome.Err)
		case it.Message == nil:
			value = deadletter.DoneValue(it.Partition, deadletter.Dropped)
		default:
			value = deadletter.DoneValue(it.Partition, deadletter.Published)
		}
		records = append(records, s.opts.entry(deadletter.EntryKey(it.ID), value))
	}
	write(records...)(s, t)
}

// release releases the keys that have no letter left.
func (r *resolveRequest) release(s *deadLetters, t *task) {
	for _, it := range r.items {
		if !it.outcome.Skipped && it.outcome.Err == nil {
			s.index.Resolved(it.ID)
		}
		if it.outcome.Err != nil || !s.index.Holds([]byte(it.Hold)) {
			s.release(it.Hold)
		}
	}
	s.next(t)
}

// CloseKeys makes new events wait of keys whose last letters are about to be resolved, by the names of what they hold. After a
// few seconds they become letters, and at once if a commit that the caller waits for would wait for them.
func (p *Publisher) CloseKeys(ctx context.Context, names []string) error {
	return p.ask(ctx, func(s *deadLetters, done chan struct{}) { s.closeKeys(names, done) })
}

// closeKeys waits for the end of a transaction that has begun: its letters cannot be read before, and its events could not be
// committed while some of them wait.
func (s *deadLetters) closeKeys(names []string, done chan struct{}) {
	if s.loop.txn.deferUntilCommitted(func(s *deadLetters) { s.closeKeys(names, done) }) {
		return
	}
	for _, name := range names {
		if s.index.Holds([]byte(name)) {
			s.closing[name] = s.loop.now.Add(s.loop.opts.Timing.Closed)
			s.loop.wakeAt(s.closing[name])
		}
	}
	close(done)
}

// OpenKeys ends the wait of those whose letters were not all resolved.
func (p *Publisher) OpenKeys(ctx context.Context, names []string) error {
	return p.ask(ctx, func(s *deadLetters, done chan struct{}) {
		for _, name := range names {
			s.release(name)
		}
		close(done)
	})
}

// turn opens the keys that took too long.
func (s *deadLetters) turn() {
	for name, due := range s.closing {
		if s.loop.now.Before(due) {
			s.loop.wakeAt(due)
		} else {
			s.release(name)
		}
	}
}

// openForCommit is called if somebody waits for the end of the transaction, who would resolve more letters.
func (s *deadLetters) openForCommit() {
	if s.open > 0 {
		return
	}
	for name := range s.closing {
		s.release(name)
	}
}

// WriteIndex writes records into the index, by their keys, and returns when they are durable.
func (p *Publisher) WriteIndex(ctx context.Context, values map[string][]byte) error {
	var records []cdc.Message
	for key, value := range values {
		records = append(records, p.opts.Letters.entry([]byte(key), value))
	}
	return p.write(ctx, records...)
}

// Forget removes letters that are resolved, by ID with their partition: from the topic of letters first, then from the index.
func (p *Publisher) Forget(ctx context.Context, letters map[string]int32) error {
	topic, index := forgotten(p.opts.Letters, letters)
	if err := p.write(ctx, topic...); err != nil {
		return err
	}
	return p.write(ctx, index...)
}

// forgotten returns the tombstones of letters in both topics.
func forgotten(o *LetterOptions, letters map[string]int32) (topic, index []cdc.Message) {
	for id, partition := range letters {
		topic = append(topic, cdc.Message{Topic: o.Topic, Partition: partition + 1, Key: []byte(id)})
		index = append(index, o.entry(deadletter.EntryKey(id), nil))
	}
	return topic, index
}
