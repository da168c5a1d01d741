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
	l.flying -= len(e.req.batches)
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
	case p.gone:
		l.landedLate(b, e)
	case e.err == nil:
		l.judged(b, e.res.GetBlock(p.topic.name, p.id))
	case isEncoding(e.err):
		l.refused(b, refusal{reason: "not_encodable", policy: l.opts.Rejected, err: e.err}, nil)
	default:
		b.doubt, p.trouble = true, trouble{}
		l.metrics.errors.WithLabelValues(p.topic.name, "connection").Inc()
		l.wantMetadata(p.topic)
	}
	l.enlist(p)
}

// landedLate takes the answer for a partition whose topic was found missing meanwhile. What was behind the batch is
// dropped whatever the answer is: should the topic be back, later messages may be in it already.
func (l *loop) landedLate(b *batch, e settled) {
	p := b.p
	if b.in(e.res) {
		l.accepted(b)
	}
	l.abandon(p, errAbsent)
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
		p.trouble = trouble{}
		l.retryLater(p, errNoBlock)
		return
	}
	r := responseTo(judge(block.Err))
	if block.Err != sarama.ErrNoError && block.Err != sarama.ErrDuplicateSequenceNumber {
		l.metrics.errors.WithLabelValues(p.topic.name, reasonOf(block.Err)).Inc()
	}
	if block.Err == sarama.ErrRequestTimedOut || block.Err == sarama.ErrNotEnoughReplicasAfterAppend {
		b.doubt = true // it is in the leader's log, and may yet be in all
	}
	if r.lookUp {
		l.wantMetadata(p.topic)
	}
	lasts := p.trouble.lasts(block.Err, l.now)
	if r.believed == atOnce || r.believed == repeated && lasts >= l.opts.Patience {
		r.then(l, b, block)
	} else {
		l.retryLater(p, causeOf(block))
	}
}

// unusable stops the topic: neither time nor another batch will help.
func (l *loop) unusable(b *batch, block *sarama.ProduceResponseBlock) {
	tp := b.p.topic
	if judge(block.Err) == misdated {
		l.haltTopic(tp, clockError(tp.name, b.rb.FirstTimestamp, causeOf(block)))
	} else {
		l.haltTopic(tp, deniedError(tp.name, causeOf(block)))
	}
}

func (l *loop) oversized(b *batch, block *sarama.ProduceResponseBlock) {
	b.p.topic.stale = true
	l.refused(b, refusal{reason: "too_large", policy: l.opts.TooLarge, err: causeOf(block)}, nil)
}

func (l *loop) rejected(b *batch, block *sarama.ProduceResponseBlock) {
	b.doubt = b.doubt || judge(block.Err) == obscure
	l.refused(b, refusal{reason: "rejected", policy: l.opts.Rejected, err: causeOf(block)}, block.RecordErrors)
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
	if !p.gone {
		p.topic.trouble = trouble{} // whatever metadata says
	}
	p.batch = nil
	n := b.n
	l.slabs.put(b)
	l.left(p.topic, n)
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
	p.state, p.retryAt = waiting, l.after(p.backoff)
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
