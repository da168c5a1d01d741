package publisher

import (
	"errors"
	"fmt"

	"github.com/IBM/sarama"
)

// errNoBlock is a response that says nothing of a partition that was in the request.
var errNoBlock = errors.New("the broker's response leaves the partition out")

// apply takes a request's outcome.
func (e settled) apply(l *loop) {
	s := e.req.s
	s.out.pop()
	l.flights--
	switch {
	case e.err == nil:
		s.proven, s.link.backoff = true, nil
		l.reachable()
		l.throttle(s.link, e.res)
	case !isEncoding(e.err):
		l.lost(s, e.err)
	}
	for _, b := range e.req.batches {
		l.landed(b, e)
	}
}

func (l *loop) landed(b *batch, e settled) {
	p := b.p
	if p.state == flying {
		p.state = idle
	}
	switch {
	case p.gone && !b.in(e.res):
		l.abandon(p, errAbsent)
	case e.err == nil:
		l.judged(b, e.res.GetBlock(p.topic.name, p.id))
	case isEncoding(e.err):
		l.refused(b, refusal{reason: "not_encodable", policy: l.opts.Rejected, err: e.err}, nil)
	default:
		b.doubt = true
		l.metrics.errors.WithLabelValues(p.topic.name, "connection").Inc()
		l.wantMetadata(p.topic)
	}
	l.enlist(p)
}

// throttle leaves a broker alone for as long as it asks. sarama would sleep for it with the connection
// locked, so this must not end earlier.
func (l *loop) throttle(k *link, res *sarama.ProduceResponse) {
	if res.ThrottleTime > 0 {
		k.pausedUntil = l.now.Add(res.ThrottleTime)
	}
}

func (l *loop) judged(b *batch, block *sarama.ProduceResponseBlock) {
	p := b.p
	if block == nil {
		l.retryLater(p, errNoBlock)
		return
	}
	v := judge(block.Err)
	if v == accepted {
		l.accepted(b)
		return
	}
	l.metrics.errors.WithLabelValues(p.topic.name, reasonOf(block.Err)).Inc()
	if p.failing.IsZero() {
		p.failing = l.now
	}
	cause := causeOf(block)
	if block.Err == sarama.ErrRequestTimedOut || block.Err == sarama.ErrNotEnoughReplicasAfterAppend {
		b.doubt = true // it is in the leader's log, and may yet be in all
	}
	patient := l.now.Sub(p.failing) < l.opts.Patience
	switch {
	case v == again, patient && (v == denied || v == obscure):
		l.retryLater(p, cause)
	case v == moved, patient && v == absent:
		l.wantMetadata(p.topic)
		l.retryLater(p, cause)
	case v == absent:
		l.vanished(p.topic, cause)
	case v == denied:
		l.haltTopic(p.topic, deniedError(p.topic.name, cause))
	case v == sequence:
		l.renew(cause)
	case v == tooLarge:
		p.topic.stale = true
		l.wantMetadata(p.topic)
		l.refused(b, refusal{reason: "too_large", policy: l.opts.TooLarge, err: cause}, nil)
	default:
		b.doubt = b.doubt || v == obscure
		l.refused(b, refusal{reason: "rejected", policy: l.opts.Rejected, err: cause}, block.RecordErrors)
	}
}

// causeOf is the broker's error, with what it says about the first record that it refuses.
func causeOf(block *sarama.ProduceResponseBlock) error {
	var text *string
	if len(block.RecordErrors) > 0 {
		text = block.RecordErrors[0].BatchIndexErrorMessage
	}
	if text == nil || *text == "" {
		text = block.ErrorMessage
	}
	if text == nil || *text == "" {
		return block.Err
	}
	return fmt.Errorf("%w (%s)", block.Err, *text)
}

func (l *loop) accepted(b *batch) {
	p, m := b.p, &b.p.topic.metrics
	var t *ticket
	var run int
	for range b.n {
		if e := p.queue.pop(); e.t == t {
			run++
		} else {
			l.settle(t, run)
			t, run = e.t, 1
		}
	}
	l.settle(t, run)
	m.published.Add(float64(b.n))
	m.bytes.Add(float64(b.bytes))
	m.produce.Observe(l.now.Sub(b.req.at).Seconds())
	p.seq = advance(p.seq, b.n)
	p.cleared(b.n)
	p.recovered()
	p.batch = nil
	p.topic.open -= b.n
	l.slabs.put(b)
	l.grow(p.topic)
}

// settle marks n messages of a ticket, which may be nil, as durable or dropped.
func (l *loop) settle(t *ticket, n int) {
	if t != nil {
		l.window.settle(t, n, l.now)
	}
}

// retryLater sends p's batch again after a pause that grows.
func (l *loop) retryLater(p *partition, cause error) {
	if p.state == halted {
		return
	}
	if p.failing.IsZero() {
		p.failing = l.now
	}
	if p.backoff == nil {
		p.backoff = l.newBackoff()
	}
	p.state, p.retryAt = waiting, l.now.Add(p.backoff.NextBackOff())
	l.waiting = append(l.waiting, p)
	l.wakeAt(p.retryAt)
	l.grumble(p, cause)
}

// refused deals with a batch that a broker will not have: nothing of it was appended, so its sequence
// numbers are free, unless an earlier attempt may have been: then other records under the same numbers
// could be taken for duplicates, and a new producer id must come first. The records that the broker names, or the only one that there is, are poison; the
// others go out again in smaller batches until it is found.
func (l *loop) refused(b *batch, why refusal, named []sarama.ProduceResponseRecordError) {
	p, n := b.p, b.n
	p.recovered()
	if b.doubt {
		l.renew(why.err)
	}
	found := n == 1
	if found {
		p.queue.at(0).poison = true
	}
	for _, r := range named {
		if r.BatchIndex >= 0 && int(r.BatchIndex) < n {
			p.queue.at(int(r.BatchIndex)).poison, found = true, true
		}
	}
	if found {
		p.blame = why
	} else {
		p.suspect(n)
	}
	l.unbatch(p)
}
