package publisher

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// topic is what the loop knows of one.
type topic struct {
	name       string
	partitions []*partition // empty: not known yet
	limit      int          // max.message.bytes
	metrics    topicMetrics

	// parked holds messages whose partition cannot be told yet, in order.
	parked fifo[entry]
	// sticky is where messages without a key go until its next batch is cut.
	sticky *partition
	// open counts the entries in the partitions' queues.
	open int
	// more is the number of partitions that the topic has grown to; applied once open is 0.
	more []*sarama.PartitionMetadata

	wanted  bool      // metadata is to be fetched
	stale   bool      // the limit is to be read again
	trouble trouble   // why metadata says that the topic cannot be published to
	checked time.Time // when it was last asked for
	err     error     // why all of it is halted; nil: it is not
	told    time.Time // when trouble with it was last logged
	noted   uint64    // the last ticket that has noted it
}

func (l *loop) topic(name string) *topic {
	tp := l.topics[name]
	if tp == nil {
		tp = &topic{name: name, limit: l.opts.MaxMessageBytes}
		l.topics[name] = tp
		l.wantMetadata(tp)
	}
	return tp
}

// accept takes the messages of a Routed.
func (l *loop) accept(r *cdc.Routed) {
	t := l.window.admit(r)
	var tp *topic
	for i := range r.Messages {
		m := &r.Messages[i]
		if tp == nil || tp.name != m.Topic {
			tp = l.topic(m.Topic)
			t.note(tp)
		}
		e := entry{m: m, t: t, body: int32(min(bodySize(m), 1<<30))}
		l.buffered += e.weight()
		if len(tp.partitions) == 0 || tp.more != nil || tp.err != nil {
			l.park(tp, e)
		} else {
			l.assign(tp, e)
		}
	}
	l.settle(t, 1)
}

func (l *loop) assign(tp *topic, e entry) {
	var p *partition
	if e.m.Key != nil {
		p = tp.partitions[partitionOf(e.m.Key, len(tp.partitions))]
	} else {
		p = tp.stick()
	}
	p.queue.push(e)
	tp.open++
	if p.state == idle {
		l.enlist(p)
	}
}

// park keeps a message until the topic is known. One that has been found missing is asked for again
// before its messages are dropped, but not for each of them.
func (l *loop) park(tp *topic, e entry) {
	tp.parked.push(e)
	switch {
	case tp.err != nil:
		l.fail(e.t.seq, atEvent(&e, tp.err))
	case tp.trouble.since.IsZero(): // on its way
	case l.now.Sub(tp.checked) > time.Second:
		l.wantMetadata(tp)
	case l.now.Sub(tp.trouble.since) >= l.opts.Patience && !tp.wanted:
		l.dropParked(tp, errAbsent)
	}
}

// stick returns the partition for messages without a key: one until its batch is cut, then another, so
// that batches do not become tiny (KIP-480). One with a leader is preferred.
func (tp *topic) stick() *partition {
	if tp.sticky != nil {
		return tp.sticky
	}
	n := len(tp.partitions)
	start := rand.IntN(n) //nolint:gosec // only spreads load
	tp.sticky = tp.partitions[start]
	for i := range n {
		if p := tp.partitions[(start+i)%n]; p.link != nil {
			tp.sticky = p
			break
		}
	}
	return tp.sticky
}

// rotate ends p's turn as the partition for messages without a key.
func (tp *topic) rotate(p *partition) {
	if tp.sticky == p {
		tp.sticky = nil
	}
}

var errAbsent = errors.New("the topic does not exist")

// learn applies what the cluster says of a topic.
func (l *loop) learn(tp *topic, md *sarama.TopicMetadata, limit int) {
	if limit > 0 {
		tp.limit, tp.stale = limit, false
	}
	switch {
	case md.Err == sarama.ErrNoError && len(md.Partitions) > 0:
		l.known(tp, md.Partitions)
	case md.Err == sarama.ErrInvalidTopic:
		l.vanished(tp, md.Err)
	case md.Err == sarama.ErrUnknownTopicOrPartition:
		l.patiently(tp, md.Err, func() { l.vanished(tp, errAbsent) })
	case md.Err == sarama.ErrTopicAuthorizationFailed:
		l.patiently(tp, md.Err, func() { l.haltTopic(tp, deniedError(tp.name, md.Err)) })
	default: // being created, or without leaders
		tp.trouble = trouble{}
		l.wantMetadata(tp)
	}
}

// patiently believes what metadata says of a topic once it has said nothing else for the patience, as [repeated] does
// for a batch, and no message has come since the question was put: the topic may be there now.
func (l *loop) patiently(tp *topic, code sarama.KError, believe func()) {
	lasts := tp.trouble.lasts(code, l.now)
	switch {
	case tp.wanted:
	case lasts < l.opts.Patience:
		l.wantMetadata(tp)
	default:
		believe()
	}
}

// known applies the leaders, and a partition count that is new.
func (l *loop) known(tp *topic, parts []*sarama.PartitionMetadata) {
	had := len(tp.partitions)
	switch {
	case had == 0:
		tp.metrics = l.metrics.topic(tp.name)
		l.extend(tp, parts)
	case len(parts) > had:
		l.log.Warn("the topic has more partitions now: keys move to others", "topic", tp.name, "before", had, "after", len(parts))
		tp.more = parts
	case len(parts) < had:
		l.shrunk(tp, len(parts))
		return
	}
	tp.trouble = trouble{}
	l.leadAll(tp, parts)
	l.grow(tp)
}

// shrunk sends nothing more under the old count. A broker that lags may answer so for a moment after partitions were
// added.
func (l *loop) shrunk(tp *topic, now int) {
	for _, p := range tp.partitions {
		p.link = nil
		l.enlist(p)
	}
	l.patiently(tp, sarama.ErrInvalidPartitions, func() {
		l.haltTopic(tp, cdc.Stop(cdc.ClassRuntime, "topic_recreated", fmt.Errorf(
			"publish to topic %q: it has %d partitions and had %d, so it was deleted and created again", tp.name, now, len(tp.partitions)),
			"restart the relay"))
	})
}

func (l *loop) leadAll(tp *topic, parts []*sarama.PartitionMetadata) {
	for _, md := range parts {
		if int(md.ID) < len(tp.partitions) {
			l.lead(tp.partitions[md.ID], md)
		}
	}
}

// extend adds the partitions that are not there yet and hands out what waited for them.
func (l *loop) extend(tp *topic, parts []*sarama.PartitionMetadata) {
	for id := len(tp.partitions); id < len(parts); id++ {
		tp.partitions = append(tp.partitions, &partition{topic: tp, id: int32(id)})
	}
	l.leadAll(tp, parts)
	for tp.parked.len() > 0 {
		l.assign(tp, tp.parked.pop())
	}
}

// left notes that n entries of the partitions' queues are published or dropped.
func (l *loop) left(tp *topic, n int) {
	tp.open -= n
	l.grow(tp)
}

// grow moves on to the new partition count once nothing is open under the old one: a key's messages stay
// in order although they go to another partition.
func (l *loop) grow(tp *topic) {
	if tp.more == nil || tp.open > 0 {
		return
	}
	parts := tp.more
	tp.more, tp.sticky = nil, nil
	l.extend(tp, parts)
}

// lead sets the leader of p. A batch that waits for a new one need not wait any longer, nor one that the
// old leader has not answered for some time.
func (l *loop) lead(p *partition, md *sarama.PartitionMetadata) {
	k := l.link(md.Leader)
	if k == p.link {
		if k == nil && p.queue.len() > 0 {
			l.wantMetadata(p.topic)
		}
		return
	}
	p.link = k
	switch {
	case p.state == waiting:
		p.state = idle
	case p.state == flying && k != nil && l.now.Sub(p.batch.req.at) >= slowAfter:
		l.lost(p.batch.req.s, errMovedOn)
	}
	l.enlist(p)
}

// vanished applies the policy to a topic that is not there.
func (l *loop) vanished(tp *topic, cause error) {
	if l.opts.UnknownTopic == cdc.PolicyStop && (tp.open > 0 || tp.parked.len() > 0) {
		l.metrics.errors.WithLabelValues(tp.name, "unknown_topic").Inc()
		l.haltTopic(tp, absentError(tp.name, cause))
		return
	}
	if tp.trouble.since.IsZero() {
		tp.trouble.since = l.now
	}
	parts := tp.partitions
	tp.partitions, tp.sticky, tp.more = nil, nil, nil
	for _, p := range parts {
		l.abandon(p, cause)
	}
	if len(parts) > 0 {
		l.renew(cause) // should it come back, its sequence numbers begin at 0
	}
	if l.opts.UnknownTopic == cdc.PolicyStop {
		delete(l.topics, tp.name) // nothing is lost yet: the next message asks anew
		return
	}
	l.dropParked(tp, cause)
}

// abandon drops what p has queued, once the batch that is with a sender has come back.
func (l *loop) abandon(p *partition, cause error) {
	p.gone = true
	if p.state == flying {
		return
	}
	if p.batch != nil {
		l.unbatch(p)
	}
	p.state = halted
	for p.queue.len() > 0 {
		e := p.queue.pop()
		l.buffered -= e.weight()
		l.drop(p.topic, &e, "unknown_topic", cause)
		l.left(p.topic, 1)
	}
}

func (l *loop) dropParked(tp *topic, cause error) {
	for tp.parked.len() > 0 {
		e := tp.parked.pop()
		l.buffered -= e.weight()
		l.metrics.errors.WithLabelValues(tp.name, "unknown_topic").Inc()
		l.drop(tp, &e, "unknown_topic", cause)
	}
}

// haltTopic stops all of a topic: nothing of it leaves any more.
func (l *loop) haltTopic(tp *topic, err error) {
	if tp.err != nil {
		return
	}
	tp.err = err
	var first *entry
	lower := func(queue *fifo[entry]) {
		if queue.len() > 0 && (first == nil || queue.at(0).t.seq < first.t.seq) {
			first = queue.at(0)
		}
	}
	lower(&tp.parked)
	for _, p := range tp.partitions {
		p.state = halted
		lower(&p.queue)
	}
	if first != nil {
		l.fail(first.t.seq, atEvent(first, err))
	}
}

// atEvent names the first event that cannot go out, for errors.skip, unless another event would fare the same.
func atEvent(e *entry, err error) error {
	if stop, ok := errors.AsType[*cdc.StopError](err); ok && stop.Reason == clockReason {
		return err
	}
	return fmt.Errorf("event %q: %w", e.m.EventID(), err)
}
