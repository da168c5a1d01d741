package publisher

import (
	"errors"
	"time"

	"github.com/IBM/sarama"
	"github.com/cenkalti/backoff/v5"
)

// link is the loop's view of a broker: the partitions that wait to be sent there, and the connection.
type link struct {
	id   int32
	addr string
	s    *sender // nil: not connected
	// list holds the partitions that are ready, in the order in which they became so; an entry whose
	// partition is no longer listed here is skipped.
	list fifo[*partition]
	// after a failure or a throttled answer nothing happens before pausedUntil.
	pausedUntil time.Time
	backoff     *backoff.ExponentialBackOff
	// polledAt is when leaders were asked for last because the broker was away.
	polledAt time.Time
}

const (
	// leaderPoll is how often leaders are asked for while theirs is away.
	leaderPoll = 250 * time.Millisecond
	// slowAfter is how long a request may be unanswered before that is done as well: a broker that hangs
	// or has lost its power says nothing, and others lead its partitions long before the request times out.
	slowAfter = time.Second
)

var errMovedOn = errors.New("the broker does not answer and another leads the partition")

// link returns a broker by its id; nil for one that is not known, and for -1.
func (l *loop) link(id int32) *link {
	for _, k := range l.links {
		if k.id == id {
			return k
		}
	}
	return nil
}

// enlist makes p ready to be sent to its leader, if it has something to send and is not otherwise busy.
func (l *loop) enlist(p *partition) {
	if p.state != idle && p.state != ready || p.queue.len() == 0 || l.held(p) {
		return
	}
	if p.link == nil {
		p.state, p.listed = idle, nil
		l.wantMetadata(p.topic)
		return
	}
	if p.state == ready && p.listed == p.link {
		return
	}
	p.state, p.listed = ready, p.link
	p.link.list.push(p)
}

// held reports whether all of p's messages are behind the one that stops the run.
func (l *loop) held(p *partition) bool {
	return p.batch == nil && p.queue.at(0).t.seq >= l.horizon
}

// pump sends what is ready for a broker, as far as its connection allows.
func (l *loop) pump(k *link, now time.Time) {
	l.suspect(k, now)
	if k.list.len() == 0 {
		return
	}
	if k.s == nil || !k.s.up {
		l.poll(k, now)
	}
	if now.Before(k.pausedUntil) {
		l.wakeAt(k.pausedUntil)
		return
	}
	if k.s == nil {
		l.connect(k)
	}
	for k.s.up && k.s.out.len() < l.opts.InFlight {
		req := l.assemble(k, now)
		if req == nil {
			return
		}
		k.s.out.push(req)
		l.flights++
		l.flying += len(req.batches)
		k.s.requests <- req // has room: see sender.requests
	}
}

// suspect asks for the leaders of what a broker has not answered for some time; see lead.
func (l *loop) suspect(k *link, now time.Time) {
	if k.s == nil || k.s.out.len() == 0 {
		return
	}
	oldest := *k.s.out.at(0)
	due := oldest.at.Add(slowAfter)
	if next := k.polledAt.Add(slowAfter); next.After(due) {
		due = next
	}
	if now.Before(due) {
		l.wakeAt(due)
		return
	}
	k.polledAt = now
	for _, b := range oldest.batches {
		l.wantMetadata(b.p.topic)
	}
	l.wakeAt(now.Add(slowAfter))
}

// poll asks from time to time whether the partitions of a broker that is away have other leaders.
func (l *loop) poll(k *link, now time.Time) {
	if k.polledAt.IsZero() {
		k.polledAt = now // it is only just connecting
	}
	if due := k.polledAt.Add(leaderPoll); now.Before(due) {
		l.wakeAt(due)
		return
	}
	k.polledAt = now
	for i := range k.list.len() {
		if p := *k.list.at(i); p.listed == k {
			l.wantMetadata(p.topic)
		}
	}
	l.wakeAt(now.Add(leaderPoll))
}

func (l *loop) connect(k *link) {
	k.s = &sender{addr: k.addr, link: k, mail: l.mail, requests: make(chan *request, l.opts.InFlight)}
	l.spawn(k.s)
}

// assemble combines the batches of the partitions that are ready into one request; nil when there are none.
func (l *loop) assemble(k *link, now time.Time) *request {
	var req *request
	for k.list.len() > 0 && (req == nil || req.bytes < l.opts.MaxRequestBytes) {
		p := k.list.pop()
		if p.state != ready || p.listed != k {
			continue
		}
		p.state, p.listed = idle, nil
		if p.batch == nil && !l.cut(p) {
			continue
		}
		if req == nil {
			req = l.newRequest(k.s, now)
		}
		p.state = flying
		p.batch.req = req
		req.batches = append(req.batches, p.batch)
		req.bytes += p.batch.bytes
		req.produce.AddBatch(p.topic.name, p.id, &p.batch.rb)
	}
	return req
}

// produceVersion is brought down to what the broker announces. From version 8 on (Kafka 2.4) a refusal names the
// records. Newer ones give nothing that is used here, and sarama encodes each batch of theirs twice as often.
const produceVersion = 8

func (l *loop) newRequest(s *sender, now time.Time) *request {
	return &request{s: s, at: now, produce: sarama.ProduceRequest{
		Version: produceVersion, RequiredAcks: sarama.WaitForAll,
		// The broker's own limit is shorter than ours, so that it is the one to say that replicas are slow.
		Timeout: int32((l.opts.RequestTimeout * 4 / 5).Milliseconds()),
	}}
}

// cut makes the next batch of p from what is queued and reports whether there is one.
func (l *loop) cut(p *partition) bool {
	l.discard(p)
	n, size := 0, batchOverhead
	limit := min(l.opts.MaxBatchBytes, p.topic.limit)
	for n < min(p.queue.len(), p.limit()) {
		e := p.queue.at(n)
		if p.state == halted || e.t.seq >= l.horizon || l.unsendable(p, e) {
			break
		}
		if n > 0 && size+e.weight() > limit {
			break
		}
		n, size = n+1, size+e.weight()
	}
	if n == 0 {
		return false
	}
	b := l.slabs.get()
	b.cut(p, n, size-batchOverhead, l.codec)
	if p.as != l.producer { // renewed since: what came before is acknowledged
		p.as, p.seq = l.producer, 0
	}
	b.stamp(p.as, p.seq)
	p.batch = b
	l.buffered -= b.bytes
	p.topic.rotate(p)
	return true
}

// unbatch takes a batch apart whose records are known not to be in the log.
func (l *loop) unbatch(p *partition) {
	l.buffered += p.batch.bytes
	l.slabs.put(p.batch)
	p.batch = nil
}

// connected: the link goes on, or tries again after a pause that grows.
func (e connected) apply(l *loop) {
	if e.s.link.s != e.s {
		return
	}
	if e.err != nil {
		l.lost(e.s, e.err)
		return
	}
	e.s.up, e.s.link.polledAt = true, time.Time{}
}

// lost gives up a connection. The first loss of one that had worked is followed up at once: brokers
// close idle connections.
func (l *loop) lost(s *sender, err error) {
	s.drop()
	k := s.link
	if k.s != s {
		return
	}
	k.s = nil
	if !s.proven || k.backoff != nil {
		if k.backoff == nil {
			k.backoff = l.newBackoff()
		}
		k.pausedUntil = l.after(k.backoff)
	} else {
		k.backoff = l.newBackoff()
	}
	k.polledAt = l.now.Add(-leaderPoll) // the leaders may have moved
	l.trouble(k.addr, err)
}
