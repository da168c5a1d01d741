package publisher

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// rejection is why a record cannot be published.
type rejection struct {
	reason string     // snake_case: too_large, rejected, ...
	policy cdc.Policy // "": none: a letter stays one, and an event behind one becomes one
	err    error
}

func (l *loop) recordInvalid(b *batch, block *sarama.ProduceResponseBlock) {
	l.rejectBatch(b, rejection{reason: "rejected", policy: l.opts.Rejected, err: causeOf(block)}, block.RecordErrors)
}

func (l *loop) unexpectedError(b *batch, block *sarama.ProduceResponseBlock) {
	if l.transactional { // a new producer would get the same answer, for ever
		if l.attempt(b.p) > 0 { // it was counted
			l.rewind(causeOf(block))
			return
		}
		e := b.p.queue.at(0)
		seq := e.pending.seq
		if e.pending.kind == republished { // a letter that was held, whose attempts are not counted: no event is the reason
			seq = 0
		}
		l.stopAt(seq, e, rejectedError(b.p.topic, b.p.id, e, rejection{reason: "rejected", err: causeOf(block)}))
		return
	}
	b.maybeAppended = true
	l.recordInvalid(b, block)
}

// rejectBatch handles a batch that a broker rejects. Nothing of it was appended, so its sequence numbers are free,
// unless an earlier attempt may have been appended: then other records with the same numbers could be taken for
// duplicates, and a new producer ID is needed first. The records that the broker names, or the only record, are marked
// as rejected. Without a name the records are sent again in smaller batches until the record is found.
func (l *loop) rejectBatch(b *batch, why rejection, named []sarama.ProduceResponseRecordError) {
	p, n := b.p, b.n
	l.clearErrors(p)
	if b.maybeAppended {
		l.needProducer(why.err)
	}
	found := n == 1
	if found {
		p.queue.at(0).rejected = &why
	}
	for _, r := range named {
		if r.BatchIndex >= 0 && int(r.BatchIndex) < n {
			p.queue.at(int(r.BatchIndex)).rejected, found = &why, true
		}
	}
	if !found { // in halves
		p.retryCount, p.retrySize = max(p.retryCount, n), (n+1)/2
	}
	l.unbatch(p)
}

// applyPolicy applies the policy to unsendable messages at the front of p's queue.
func (l *loop) applyPolicy(p *partition) {
	for p.queue.len() > 0 && p.state != halted {
		e := p.queue.at(0)
		if e.pending.seq >= l.stopSeq || !l.unsendable(p, e) && !l.letters.overtaken(e) {
			return
		}
		var why rejection // none for an event behind a letter of its key
		if e.rejected != nil {
			why = *e.rejected
		} else if l.tooLarge(p, e) {
			why = l.tooLargeRejection(p, e)
		}
		if why.reason != "" {
			l.metrics.errors.WithLabelValues(p.topic.name, why.reason).Inc()
		}
		if e.stops(why) {
			p.halt(l)
			l.stopAt(e.pending.seq, e, rejectedError(p.topic, p.id, e, why))
			return
		}
		gone := p.queue.pop()
		l.giveUp(&gone, why)
		p.topic.queued--
	}
}

// giveUpBeyond gives up a message for a partition that the topic does not have. It is in no queue.
func (l *loop) giveUpBeyond(tp *topic, e queuedMessage) {
	why := rejection{malformed, l.opts.Malformed, fmt.Errorf("the topic's last partition is %d", len(tp.partitions)-1)}
	l.metrics.errors.WithLabelValues(tp.name, why.reason).Inc()
	if e.stops(why) {
		l.stopAt(e.pending.seq, &e, rejectedError(tp, e.m.Partition-1, &e, why))
		return
	}
	l.giveUp(&e, why)
}

// malformed is the reason of a message whose row names a partition that the topic does not have.
const malformed = "malformed"

// stops reports whether a message that cannot be published stops the run.
func (e *queuedMessage) stops(why rejection) bool {
	return e.pending.kind == ownWrite || why.policy == cdc.PolicyStop && e.pending.kind == relayed
}

func (l *loop) tooLargeRejection(p *partition, e *queuedMessage) rejection {
	err := fmt.Errorf("the record takes %d bytes and the topic allows %d (max.message.bytes)", e.size()+batchOverhead, p.topic.limit)
	if e.size() > hardLimit {
		err = fmt.Errorf("the record takes %d bytes and a request to Kafka holds %d at most", e.size(), hardLimit)
	}
	return rejection{"too_large", l.opts.TooLarge, err}
}

// giveUp decides about an event that cannot be published. e is in no queue any more.
func (l *loop) giveUp(e *queuedMessage, why rejection) {
	l.buffered -= e.weight()
	if l.letters.giveUp(e, why) {
		return
	}
	l.opts.Dropped(why.reason)
	l.log.Warn("event dropped by policy", cdc.Repeats(), eventAttr(e), slog.String("reason", why.reason), slog.Any("error", why.err))
	l.resolve(e.pending, 1)
}

func rejectedError(tp *topic, partition int32, e *queuedMessage, why rejection) error {
	if e.pending.kind == ownWrite {
		return cdc.Stop(cdc.ClassRuntime, why.reason, fmt.Errorf("write %q to the relay's own topic %q partition %d: %w", e.m.Key, tp.name, partition, why.err),
			fmt.Sprintf("raise the topic's max.message.bytes, for dead letters to %d or as high as the brokers allow, and remove its other limits on records", hardLimit))
	}
	fix := "correct the event or list it under errors.skip"
	switch {
	case why.reason == malformed:
		fix = "add partitions to the topic, correct routes[].partition or what writes the row, or set errors.malformed: dead_letter"
	case why.reason == "too_large":
		fix = "list the event under errors.skip, or set errors.too_large: dead_letter"
	case why.policy == cdc.PolicyStop:
		fix += ", or set errors.rejected: dead_letter"
	}
	if why.reason == "too_large" && e.size() <= hardLimit {
		fix = "raise the topic's max.message.bytes, " + fix
	}
	return cdc.Stop(cdc.ClassRuntime, why.reason, fmt.Errorf("publish event %q to topic %q partition %d: %w",
		e.m.EventID(), tp.name, partition, why.err), fix)
}

const clockReason = "clock"

// clockError names no event: every attempt has its own time, so no event can be the cause.
func clockError(topic string, sent time.Time, cause error) error {
	return cdc.Stop(cdc.ClassRuntime, clockReason, fmt.Errorf("publish to topic %q: the broker refuses %s, the time of this machine: %w",
		topic, sent.UTC().Format(time.RFC3339), cause),
		"set the clocks of this machine and of the brokers, or raise the topic's message.timestamp.before.max.ms and message.timestamp.after.max.ms (before Kafka 3.6 message.timestamp.difference.max.ms)")
}

// dropPartition gives up p's queue, once its batch is no longer in flight.
func (l *loop) dropPartition(p *partition, cause error) {
	p.gone = true
	if p.sent() {
		return
	}
	if p.batch != nil {
		l.unbatch(p)
	}
	p.halt(l)
	for p.queue.len() > 0 {
		e := p.queue.pop()
		l.giveUp(&e, rejection{"unknown_topic", l.opts.UnknownTopic, cause})
		p.topic.queued--
	}
}

func (l *loop) giveUpUnplaced(tp *topic, cause error) {
	for tp.unplaced.len() > 0 {
		e := tp.unplaced.pop()
		l.metrics.errors.WithLabelValues(tp.name, "unknown_topic").Inc()
		l.giveUp(&e, rejection{"unknown_topic", l.opts.UnknownTopic, cause})
	}
}

// failItems fails the letters that are published again to a topic: they are no reason to stop.
func (l *loop) failItems(tp *topic, why rejection) {
	fail := func(queue *fifo[queuedMessage], sent int) (failed int) {
		for i := range queue.len() {
			e := queue.pop()
			if i >= sent && e.pending.kind == republished {
				l.giveUp(&e, why)
				failed++
			} else {
				queue.push(e)
			}
		}
		return failed
	}
	fail(&tp.unplaced, 0)
	for _, p := range tp.partitions {
		if p.batch != nil && !p.sent() && l.attempt(p) >= 0 {
			if p.batch.maybeAppended {
				l.needProducer(why.err)
			}
			l.unbatch(p)
			l.clearErrors(p)
		}
		sent := 0
		if p.batch != nil {
			sent = p.batch.n
		}
		tp.queued -= fail(&p.queue, sent)
	}
}

// onlyItems reports whether nothing is left of a topic but letters that are published again, which are in flight.
func (tp *topic) onlyItems() bool {
	for _, p := range tp.partitions {
		for i := range p.queue.len() {
			if p.queue.at(i).pending.kind != republished {
				return false
			}
		}
	}
	return tp.unplaced.len() == 0
}

// attempt is how often the letter in p's batch that was tried most is published again, this time included: 0 if all of them were only held,
// and -1 if there is none.
func (l *loop) attempt(p *partition) int {
	most := -1
	for i := range p.batch.n {
		if it := p.queue.at(i).pending.item; it != nil {
			most = max(most, it.Attempts)
		}
	}
	return most
}

// refuseRecords is haltTopic for an error that records get: without events the topic goes on, for the next one.
func (l *loop) refuseRecords(tp *topic, err error) {
	l.failItems(tp, rejection{reason: "topic", err: err})
	if !tp.onlyItems() {
		l.haltTopic(tp, err)
	}
}

// haltTopic stops all partitions of a topic: nothing of it is sent any more.
func (l *loop) haltTopic(tp *topic, err error) {
	if tp.err != nil {
		return
	}
	l.failItems(tp, rejection{reason: "topic", err: err})
	if tp.onlyItems() { // nothing is lost yet: the next message requests metadata again
		l.dropPartitions(tp, err)
		delete(l.topics, tp.name)
		return
	}
	tp.err = err
	var first *queuedMessage
	compare := func(queue *fifo[queuedMessage]) {
		if queue.len() > 0 && (first == nil || queue.at(0).pending.seq < first.pending.seq) {
			first = queue.at(0)
		}
	}
	compare(&tp.unplaced)
	for _, p := range tp.partitions {
		p.halt(l)
		compare(&p.queue)
	}
	if first != nil {
		l.stopAt(first.pending.seq, first, withEvent(first, err))
	}
}

// withEvent adds the first event that cannot be published, for errors.skip, unless every event has the same error.
func withEvent(e *queuedMessage, err error) error {
	if e.pending.kind == ownWrite || cdc.ReasonOf(err) == clockReason {
		return err
	}
	return fmt.Errorf("event %q: %w", e.m.EventID(), err)
}

// failure is what stops the run.
type failure struct {
	seq      uint64
	err      error
	until    time.Time // when it is reported although earlier messages are not resolved
	reported bool
}

// stopGrace is how long messages before the one that stops the run may still take: the next run starts at the first
// message that is not resolved.
const stopGrace = 5 * time.Second

// stopAt stops the run at the batch seq: nothing of it and of later ones is sent any more, earlier ones are still
// resolved, and then the relay gets the error. e is the event that cannot be published; nil if the error is not about one.
func (l *loop) stopAt(seq uint64, e *queuedMessage, err error) {
	seq, err = l.txn.stopAt(seq, err)
	if l.failure != nil && l.failure.seq <= seq {
		return
	}
	until := l.now.Add(stopGrace)
	if l.failure != nil {
		until = l.failure.until
	} else {
		l.log.Error("publishing stops", eventAttr(e), slog.Any("error", err))
	}
	l.failure = &failure{seq: seq, err: err, until: until}
	l.stopSeq = seq
}

// reportFailure sends the error once all earlier messages are resolved, or their time is over.
func (l *loop) reportFailure() {
	f := l.failure
	if f == nil || f.reported {
		return
	}
	if oldest, found := l.pending.oldest(); found && oldest < f.seq && l.now.Before(f.until) {
		l.wakeAt(f.until)
		return
	}
	f.reported, l.stopSeq = true, 0
	l.txn.failed(f.err)
	l.pending.answers.push(cdc.Durable{First: f.seq, Last: f.seq, Err: f.err})
}

// eventAttr names an event in a log line, or the topic of a record of the relay's own.
func eventAttr(e *queuedMessage) slog.Attr {
	switch {
	case e == nil:
		return slog.Attr{}
	case e.pending.kind == ownWrite:
		return cdc.EventAttr("", nil, e.m.Topic)
	}
	return cdc.EventAttr(e.m.EventID(), e.m.Key, e.m.Topic)
}
