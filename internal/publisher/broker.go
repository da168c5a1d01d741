package publisher

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/cenkalti/backoff/v5"

	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// brokerState is the loop's state of a broker: the partitions that are ready to be sent to it, and the connection.
type brokerState struct {
	id   int32
	addr string
	conn *brokerConn // nil: not connected
	// ready holds the partitions that are ready, in the order in which they became so; an entry whose partition has
	// another readyAt is skipped.
	ready fifo[*partition]
	// pausedUntil is the end of a backoff or of a throttle time: nothing is sent before.
	pausedUntil time.Time
	backoff     *backoff.ExponentialBackOff
	// leadersAskedAt is when metadata was last requested because the broker was away or slow.
	leadersAskedAt time.Time
	trouble        trouble // since the last answer
}

// brokerConn is one connection to a broker, from dialing to closing. Every request that it is given comes back to the
// loop exactly once, as a requestDone.
type brokerConn struct {
	addr     string
	inFlight int
	mail     *mailbox
	// requests has room for all requests that may be in flight, so that the loop never blocks.
	requests chan *request
	// closeNow ends the connection at once, whatever it is doing.
	closeNow context.CancelFunc

	buf        []byte // the request that is being sent
	compressor compressor

	// The loop's part.
	broker    *brokerState
	connected bool
	// connectedAt is when it was opened.
	connectedAt time.Time
	open        fifo[*request] // requests without a response
	responded   bool           // a response has arrived
}

// request is one produce request: a batch for each of some partitions of one broker.
type request struct {
	conn    *brokerConn
	batches []*batch // by topic
	bytes   int
	sentAt  time.Time // when it was handed to the connection
	produce sarama.ProduceRequest
}

// dialed is posted when a connection is open, or could not be opened, or the broker has closed it.
type dialed struct {
	conn *brokerConn
	err  error
}

// requestDone is posted for each request: with the broker's response, or with the reason why there is none.
type requestDone struct {
	req *request
	res *sarama.ProduceResponse
	err error
}

var (
	errClosed       = errors.New("the connection was given up")
	errMoved        = errors.New("the broker has another address now")
	errReplaced     = errors.New("the broker does not answer and another leads the partition")
	errBrokerHungUp = errors.New("the broker has closed it")
)

// watchInterval is how often a connection is looked at: whether the broker has closed it while nothing was sent.
const watchInterval = time.Second

// run ends when the loop closes the connection, and not before: a request may be on its way to it until then.
func (c *brokerConn) run(ctx context.Context, client *kafka.Client) {
	b, err := client.Connect(ctx, c.addr, c.inFlight)
	c.mail.post(dialed{c, err})
	if err == nil {
		c.sendRequests(ctx, b)
		// Close waits for the goroutine that reads responses. That goroutine calls back for what is in flight.
		_ = b.Close()
	}
	c.returnRequests(ctx)
}

// sendRequests sends until the connection is closed or fails. It blocks as long as the broker does not read.
func (c *brokerConn) sendRequests(ctx context.Context, b *kafka.Conn) {
	watch := time.NewTicker(watchInterval)
	defer watch.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-watch.C:
			if b.HungUp() {
				c.mail.post(dialed{c, errBrokerHungUp})
				return
			}
		case req := <-c.requests:
			if err := c.send(b, req); err != nil {
				c.mail.post(requestDone{req, nil, err})
				return // a part of the request may have been written: nothing can follow it
			}
		}
	}
}

// send encodes and writes a request.
func (c *brokerConn) send(b *kafka.Conn, req *request) error {
	done := func(res *sarama.ProduceResponse, err error) { c.mail.post(requestDone{req, res, err}) }
	if cap(c.buf) > 2*maxRequestBytes { // after a very large record
		c.buf, c.compressor.records = nil, nil
	}
	c.buf = req.appendTopics(c.buf[:0], &c.compressor)
	return b.Produce(&req.produce, c.buf, done)
}

// returnRequests returns requests that can no longer be sent.
func (c *brokerConn) returnRequests(ctx context.Context) {
	for {
		select {
		case req := <-c.requests:
			c.mail.post(requestDone{req, nil, errClosed})
		case <-ctx.Done():
			if len(c.requests) == 0 {
				return
			}
		}
	}
}

const (
	// leaderInterval is how often leaders are requested while a broker is away.
	leaderInterval = 250 * time.Millisecond
	// slowAfter is how long a request may be without a response before leaders are requested too: a broker that hangs
	// or has lost power does not close connections, and others lead its partitions long before the request times out.
	slowAfter = time.Second
)

// brokerByID returns nil for a broker that is not known, and for -1.
func (l *loop) brokerByID(id int32) *brokerState {
	for _, b := range l.brokers {
		if b.id == id {
			return b
		}
	}
	return nil
}

// sendReady sends the partitions that are ready for a broker, as far as its connection allows.
func (l *loop) sendReady(b *brokerState) {
	// A broker that nothing waits for is connected to if that tells whether it is still away.
	wanted := b.pruneReady()
	if !wanted && b.conn == nil && !b.trouble.since.IsZero() && !l.leads(b) {
		l.passed(&b.trouble) // it may be gone for good, and each turn would look for its partitions
	}
	if !wanted && (b.conn != nil || b.trouble.since.IsZero() || l.failure != nil) {
		return
	}
	if wanted && (b.conn == nil || !b.conn.connected) {
		l.refreshLeaders(b)
	}
	if l.now.Before(b.pausedUntil) {
		l.wakeAt(b.pausedUntil)
		return
	}
	if b.conn == nil {
		b.conn = &brokerConn{
			addr: b.addr, inFlight: l.opts.inFlight, broker: b, mail: l.mail, requests: make(chan *request, l.opts.inFlight), compressor: newCompressor(l.codec),
		}
		l.startConn(b.conn)
	}
	for b.conn.connected && b.conn.open.len() < l.opts.inFlight {
		req := l.assemble(b)
		if req == nil {
			return
		}
		b.conn.open.push(req)
		l.openRequests++
		l.openBatches += len(req.batches)
		b.conn.requests <- req // has room: see brokerConn.requests
	}
}

// checkSlow requests the leaders of partitions whose batches a broker has not answered for some time; see setLeader.
func (l *loop) checkSlow(b *brokerState) {
	if b.conn == nil || b.conn.open.len() == 0 {
		return
	}
	oldest := *b.conn.open.at(0)
	due := oldest.sentAt.Add(slowAfter)
	if next := b.leadersAskedAt.Add(slowAfter); next.After(due) {
		due = next
	}
	if l.now.Before(due) {
		l.wakeAt(due)
		return
	}
	b.leadersAskedAt = l.now
	for _, batch := range oldest.batches {
		l.wantMetadata(batch.p.topic)
	}
	l.wakeAt(l.now) // to submit that
}

// refreshLeaders requests, from time to time, the leaders of partitions whose broker is away.
func (l *loop) refreshLeaders(b *brokerState) {
	if b.leadersAskedAt.IsZero() {
		b.leadersAskedAt = l.now // the first connect has just begun
	}
	if due := b.leadersAskedAt.Add(leaderInterval); l.now.Before(due) {
		l.wakeAt(due)
		return
	}
	b.leadersAskedAt = l.now
	for i := range b.ready.len() {
		if p := *b.ready.at(i); p.readyAt == b {
			l.wantMetadata(p.topic)
		}
	}
	l.wakeAt(l.now.Add(leaderInterval))
}

// pruneReady removes entries of partitions that have another leader by now, and reports whether one is ready for b.
func (b *brokerState) pruneReady() bool {
	for b.ready.len() > 0 && (*b.ready.at(0)).readyAt != b {
		b.ready.pop()
	}
	return b.ready.len() > 0
}

// assemble combines the batches of ready partitions into one request; nil when there are none.
func (l *loop) assemble(b *brokerState) *request {
	var req *request
	for b.pruneReady() && (req == nil || req.bytes+l.nextBytes(*b.ready.at(0)) <= maxRequestBytes) {
		p := b.ready.pop()
		if p.batch == nil && !l.newBatch(p) {
			if p.state == ready {
				p.to(l, idle)
			}
			continue
		}
		if req == nil {
			req = l.newRequest(b.conn)
		}
		p.to(l, inFlight)
		p.batch.req = req
		req.batches = append(req.batches, p.batch)
		req.bytes += p.batch.wireBytes()
	}
	if req != nil {
		slices.SortFunc(req.batches, func(a, b *batch) int { return strings.Compare(a.p.topic.name, b.p.topic.name) })
	}
	return req
}

// nextBytes bounds what p adds to a request.
func (l *loop) nextBytes(p *partition) int {
	switch {
	case p.batch != nil:
		return p.batch.wireBytes()
	case p.queue.len() == 0: // its letters were refused
		return 0
	}
	return max(l.opts.maxBatchBytes, p.queue.at(0).weight())
}

const (
	// maxRequestBytes bounds the batches that one request combines, before compression. Azure Event Hubs closes a
	// connection on which a request is larger than 1,046,528 bytes.
	maxRequestBytes = 1_000_000
	// produceVersion is lowered to what the broker supports. From version 8 on (Kafka 2.4) a rejection names the
	// records. Newer versions add nothing that is used here, and encode topics in another way.
	produceVersion = 8
)

func (l *loop) newRequest(c *brokerConn) *request {
	r := &request{conn: c, sentAt: l.now, produce: sarama.ProduceRequest{
		Version: produceVersion, RequiredAcks: sarama.WaitForAll,
		// Shorter than the timeout of the connection, so that a broker with slow replicas can still say so.
		Timeout: int32((l.opts.Kafka.RequestTimeout * 4 / 5).Milliseconds()),
	}}
	if l.transactional {
		r.produce.TransactionalID = &l.transactionalID
	}
	return r
}

func (e dialed) apply(l *loop) {
	b := e.conn.broker
	if b.conn != e.conn {
		return
	}
	if e.err != nil {
		l.closeConn(e.conn, e.err)
		return
	}
	e.conn.connected, e.conn.connectedAt, b.leadersAskedAt = true, l.now, time.Time{}
	l.passed(&b.trouble)
}

// closeConn gives up a connection. A connection that had worked is replaced at once, the first time: brokers close idle
// ones. Otherwise there is a backoff.
func (l *loop) closeConn(c *brokerConn, err error) {
	c.closeNow()
	b := c.broker
	if b.conn != c {
		return
	}
	b.conn = nil
	switch {
	case errors.Is(err, errMoved), errors.Is(err, errReplaced), errors.Is(err, errClosed):
	case c.connected && isTimeout(err): // a request was sent that long ago, or longer
		l.met(&b.trouble, l.now.Add(-l.opts.Kafka.RequestTimeout), lostError(b.addr, err))
	case c.connected:
		l.met(&b.trouble, l.now, lostError(b.addr, err))
	default:
		l.met(&b.trouble, l.now, err)
	}
	if c.connected && l.now.Sub(c.connectedAt) > l.opts.RetryMax { // brokers close idle connections
		c.responded, b.backoff = true, nil
	}
	if !c.responded || b.backoff != nil {
		b.pausedUntil = l.after(&b.backoff, l.opts.RetryMax)
	} else {
		b.backoff = l.newBackoff()
	}
	b.leadersAskedAt = l.now.Add(-leaderInterval) // the leaders may have moved
	if !b.pruneReady() {
		for _, tp := range l.topicsOf(b) {
			l.wantMetadata(tp)
		}
	}
	if !errors.Is(err, errBrokerHungUp) { // what the next connect finds
		l.logFailure(b.addr, err)
	}
}
