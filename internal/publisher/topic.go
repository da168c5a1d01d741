package publisher

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// topic is the loop's state of a topic.
type topic struct {
	name       string
	own        bool         // of the relay's own records, not of events
	partitions []*partition // empty: not known yet
	limit      int          // max.message.bytes
	metrics    topicMetrics // once a record is acknowledged

	// unplaced holds messages whose partition is not known yet, in order.
	unplaced fifo[queuedMessage]
	// sticky is the partition of messages without a key until its next batch is made.
	sticky *partition
	// queued counts the messages in the partitions' queues.
	queued int
	// short is since when messages have been for partitions that the topic does not have; zero: none has since it had as many as now.
	short time.Time
	// counted is when metadata last told the number of partitions, and recount says that it is to tell it again before the unplaced messages go on.
	counted time.Time
	recount bool

	wanted     bool          // metadata is to be requested
	limitStale bool          // the limit is to be read, again
	absent     bool          // the last metadata said for the patience that the topic does not exist, and events for it may be given up
	lastError  repeatedError // of the metadata
	failing    trouble       // of the metadata
	askedAt    time.Time     // when metadata was last requested
	err        error         // why all of it is halted; nil: it is not
}

func (l *loop) topic(name string) *topic {
	tp := l.topics[name]
	if tp == nil {
		tp = &topic{name: name, own: l.opts.ownTopic(name), limit: l.opts.MaxMessageBytes, limitStale: true}
		l.topics[name] = tp
		l.wantMetadata(tp)
	}
	return tp
}

// defers reports whether messages wait until the topic's partitions are known.
func (tp *topic) defers() bool {
	return len(tp.partitions) == 0 || tp.recount || tp.err != nil
}

// deferUntilKnown keeps a message until the topic's metadata is known. Metadata of a missing topic is requested again before its
// messages are dropped, but not for each of them.
func (l *loop) deferUntilKnown(tp *topic, e queuedMessage) {
	tp.unplaced.push(e)
	switch {
	case tp.err != nil:
		l.stopAt(e.pending.seq, &e, withEvent(&e, tp.err))
	case tp.lastError.since.IsZero(): // a response is due
	case l.now.Sub(tp.askedAt) > time.Second:
		l.wantMetadata(tp)
	case tp.absent && !tp.wanted:
		l.giveUpUnplaced(tp, errTopicMissing)
	}
}

// keyless returns the partition for messages without a key: the same one until its batch is made, then another, so
// that batches do not become tiny (KIP-480). A partition with a leader is preferred.
func (tp *topic) keyless() *partition {
	if tp.sticky != nil {
		return tp.sticky
	}
	n := len(tp.partitions)
	start := rand.IntN(n) //nolint:gosec // only spreads load
	tp.sticky = tp.partitions[start]
	for i := range n {
		if p := tp.partitions[(start+i)%n]; p.leader != nil {
			tp.sticky = p
			break
		}
	}
	return tp.sticky
}

// maxMissing is how many topics that do not exist are known as missing, so that their messages do not wait: a row may name any topic.
const maxMissing = 1000

// missing reports whether tp was found missing, and nothing waits for it.
func (tp *topic) missing() bool {
	return len(tp.partitions) == 0 && tp.unplaced.len() == 0 && !tp.wanted && tp.err == nil
}

// forgetMissing forgets the topics that do not exist, if there are many.
func (l *loop) forgetMissing() {
	n := 0
	for _, tp := range l.topics {
		if tp.missing() {
			n++
		}
	}
	if n > maxMissing {
		maps.DeleteFunc(l.topics, func(_ string, tp *topic) bool { return tp.missing() })
	}
}

var errTopicMissing = kafka.ErrTopicMissing

// applyMetadata applies the metadata of a topic.
func (l *loop) applyMetadata(tp *topic, md *sarama.TopicMetadata, limit int) {
	if limit > 0 {
		tp.limit, tp.limitStale = limit, false
	}
	tp.absent = false
	switch {
	case md.Err == sarama.ErrNoError && len(md.Partitions) > 0:
		l.applyPartitions(tp, md.Partitions)
	case md.Err == sarama.ErrInvalidTopic:
		l.topicMissing(tp, md.Err)
	case md.Err == sarama.ErrUnknownTopicOrPartition:
		l.whenRepeated(tp, md.Err, func() { l.topicMissing(tp, errTopicMissing) })
	case md.Err == sarama.ErrTopicAuthorizationFailed:
		l.whenRepeated(tp, md.Err, func() { l.haltTopic(tp, kafka.DeniedTopicError(tp.name, md.Err)) })
	default: // being created, or without leaders
		tp.lastError = repeatedError{}
		l.met(&tp.failing, l.now, md.Err)
		l.wantMetadata(tp)
	}
}

// whenRepeated calls do once metadata has had no other error code for the patience, as [repeated] does for a batch, and
// no message has come since the request: the topic may exist now. That it does not, another broker must have said, too.
func (l *loop) whenRepeated(tp *topic, code sarama.KError, do func()) {
	lasted := tp.lastError.lasted(code, l.now)
	l.met(&tp.failing, l.now, code)
	switch {
	case tp.wanted:
	case lasted < l.opts.Timing.Patience, code == sarama.ErrUnknownTopicOrPartition && !tp.lastError.again:
		l.wantMetadata(tp)
	default:
		do()
	}
}

// applyPartitions applies the leaders, and a partition count that has changed.
func (l *loop) applyPartitions(tp *topic, parts []*sarama.PartitionMetadata) {
	had := len(tp.partitions)
	if len(parts) < had {
		l.fewerPartitions(tp, len(parts))
		return
	}
	if had > 0 && len(parts) > had {
		l.log.Warn("the topic has more partitions now: keys move to others", "topic", tp.name, "before", had, "after", len(parts))
	}
	tp.lastError, tp.counted = repeatedError{}, l.now
	l.passed(&tp.failing)
	for id := had; id < len(parts); id++ {
		tp.partitions = append(tp.partitions, &partition{topic: tp, id: int32(id)})
	}
	for _, md := range parts {
		if int(md.ID) < len(tp.partitions) {
			l.setLeader(tp.partitions[md.ID], md)
		}
	}
	if len(parts) > had {
		tp.short, tp.recount = time.Time{}, false
		l.place(tp)
	}
	l.recounted(tp)
}

// beyond takes a message for a partition that the topic does not have, as far as is known. A broker may hear of a new partition after its
// writers do, as of a new topic: the message waits for the patience, and then is given up. Later ones wait only until metadata has told the
// number again, unless it did within the last second, which is not enough for a letter: somebody may just have added the partition for it.
func (l *loop) beyond(tp *topic, e queuedMessage) {
	if tp.short.IsZero() {
		tp.short = l.now
	}
	recent := time.Second
	if e.pending.kind == republished {
		recent = 0
	}
	if l.isShort(tp) && l.now.Sub(tp.counted) <= recent {
		l.giveUpBeyond(tp, e)
		return
	}
	tp.recount = true
	tp.unplaced.push(e)
	l.wantMetadata(tp)
}

// isShort reports whether the number of partitions has been too small for the patience.
func (l *loop) isShort(tp *topic) bool { return l.now.Sub(tp.short) >= l.opts.Timing.Patience }

// recounted lets messages go on that waited for the number of partitions, or requests it again.
func (l *loop) recounted(tp *topic) {
	switch {
	case !tp.recount:
	case l.isShort(tp):
		tp.recount = false
		l.place(tp)
	default:
		l.wantMetadata(tp)
	}
}

// fewerPartitions sends nothing more with the old count. A broker with old metadata may return the smaller count for a
// moment after partitions were added.
func (l *loop) fewerPartitions(tp *topic, now int) {
	for _, p := range tp.partitions {
		p.leader = nil
		l.markReady(p)
	}
	l.whenRepeated(tp, sarama.ErrInvalidPartitions, func() {
		l.haltTopic(tp, cdc.Stop(cdc.ClassRuntime, "topic_recreated", fmt.Errorf(
			"publish to topic %q: it has %d partitions and had %d, so it was deleted and created again", tp.name, now, len(tp.partitions)),
			"restart the relay"))
	})
}

// place enqueues the unplaced messages, in order, until one makes those behind it wait again.
func (l *loop) place(tp *topic) {
	for range tp.unplaced.len() {
		if e := tp.unplaced.pop(); tp.defers() {
			tp.unplaced.push(e)
		} else {
			l.enqueue(tp, e)
		}
	}
}

// setLeader sets the leader of p. A batch that waits for a new leader is sent at once, and so is a batch that the old
// leader has not answered for some time.
func (l *loop) setLeader(p *partition, md *sarama.PartitionMetadata) {
	b := l.brokerByID(md.Leader)
	switch {
	case b == nil && p.queue.len() > 0:
		l.met(&p.failing, l.now, errLeaderless)
	case errors.Is(p.failing.err, errLeaderless):
		l.passed(&p.failing)
	}
	if b == p.leader {
		if b == nil && p.queue.len() > 0 {
			l.wantMetadata(p.topic)
		}
		return
	}
	p.leader = b
	switch {
	case p.state == waiting:
		p.to(l, idle)
	case p.state == inFlight && b != nil && l.now.Sub(p.batch.req.sentAt) >= slowAfter:
		l.closeConn(p.batch.req.conn, errReplaced)
	}
	l.markReady(p)
}

// topicMissing applies the policy to a topic that does not exist.
func (l *loop) topicMissing(tp *topic, cause error) {
	if tp.name == l.opts.PositionTopic { // no event is the reason; the next Open says what is
		l.rewind(fmt.Errorf("publish to topic %q: %w", tp.name, cause))
		return
	}
	policy := l.opts.UnknownTopic
	l.failItems(tp, rejection{"unknown_topic", policy, kafka.MissingTopicError(tp.name, cause)})
	if tp.own {
		l.haltTopic(tp, ownTopicError(tp, cause))
		return
	}
	if policy == cdc.PolicyStop && (tp.queued > 0 || tp.unplaced.len() > 0) {
		l.metrics.errors.WithLabelValues(tp.name, "unknown_topic").Inc()
		l.haltTopic(tp, kafka.MissingTopicError(tp.name, cause))
		return
	}
	if tp.lastError.since.IsZero() {
		tp.lastError.since = l.now
	}
	l.dropPartitions(tp, cause)
	if policy == cdc.PolicyStop {
		delete(l.topics, tp.name) // nothing is lost yet: the next message requests metadata again
		return
	}
	tp.absent = true
	l.giveUpUnplaced(tp, cause)
}

// dropPartitions forgets tp's partitions and gives up what they have queued.
func (l *loop) dropPartitions(tp *topic, cause error) {
	parts := tp.partitions
	tp.partitions, tp.sticky = nil, nil
	for _, p := range parts {
		l.dropPartition(p, cause)
	}
	if len(parts) > 0 {
		l.needProducer(cause) // if the topic comes back, its sequence numbers begin at 0
	}
}
