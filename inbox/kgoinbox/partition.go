package kgoinbox

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/lanes"
	"github.com/cdc-relay/cdc-relay/inbox/parking"
	"github.com/cdc-relay/cdc-relay/writer"
)

// partition is what a consumer has of a partition while it owns it.
type partition[Tx any] struct {
	*run[Tx]

	at    topicPartition
	lanes *lanes.Lanes
	wake  chan struct{} // records arrived, or messages are finished
	end   context.CancelFunc
	over  <-chan struct{} // closed by end
	ended sync.WaitGroup

	mu       sync.Mutex
	held     []*inbox.Message // polled, not offered yet
	bytes    int              // of messages that are polled and not finished
	left     bool             // bytes count no more
	next     int64            // behind the last polled record
	paused   bool
	parked   bool                     // some may be parked
	blocked  map[parking.Key]bool     // keys with parked messages
	retrying map[parking.Key]*attempt // keys whose retry is in its lane
	more     bool                     // the last look found as many as it may
	look     chan struct{}            // look again
	outages  map[parking.Key]int      // in a row in the handler of a key's first message
}

// A partition is paused when it holds so many messages, or its share of Config.Bytes, and resumed when half is left: franz-go drops what
// it has fetched of a paused partition, and fetches it again. Much more is not held than this and what one fetch returns.
const maxHeld = 1000

func newPartition[Tx any](ctx context.Context, r *run[Tx], at topicPartition) *partition[Tx] {
	p := &partition[Tx]{run: r, at: at, wake: make(chan struct{}, 1), look: make(chan struct{}, 1), blocked: map[parking.Key]bool{}, retrying: map[parking.Key]*attempt{}, outages: map[parking.Key]int{}}
	p.lanes = lanes.New(ctx, lanes.Config{
		Handle: p.message, HandleBatch: p.batch, Batch: r.config.Batch,
		Workers: r.workers, Count: r.config.Count, Bytes: r.config.Bytes, Finished: p.signal,
	})
	ctx, p.end = context.WithCancel(ctx) //nolint:gosec // stop calls it
	p.over = ctx.Done()
	p.ended.Go(func() { p.feed(ctx) })
	return p
}

func (p *partition[Tx]) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// hold takes a polled message. It does not block.
//
// franz-go goes back if the partition's log has lost its end, or its topic was made anew. What is unfinished cannot be told from the
// new records then, and Run ends; the next one begins at the committed offset, or where the client's reset policy says.
func (p *partition[Tx]) hold(m *inbox.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.Offset < p.next {
		p.fail(fmt.Errorf("record %s[%d]@%d came after offset %d: the log has lost its end, or the topic was made anew: %s, and run the consumer again", m.Topic, m.Partition, m.Offset, p.next-1, dropOld))
		return
	}
	p.next = m.Offset + 1
	p.held = append(p.held, m)
	p.count(size(m))
	p.pause(len(p.held) >= maxHeld || p.bytes >= p.share() || p.paused)
	p.signal()
}

// count is called with p.mu.
func (p *partition[Tx]) count(bytes int) {
	if !p.left {
		p.bytes += bytes
		p.memory.add(bytes)
	}
}

func size(m *inbox.Message) int {
	n := 256 + len(m.Key) + len(m.Value) // with the Message itself
	for _, h := range m.Headers {
		n += 64 + len(h.Key) + len(h.Value)
	}
	return n
}

// pause is called with p.mu.
func (p *partition[Tx]) pause(paused bool) {
	parts := map[string][]int32{p.at.topic: {p.at.partition}}
	switch {
	case paused && !p.paused:
		p.client.PauseFetchPartitions(parts)
	case !paused && p.paused:
		p.client.ResumeFetchPartitions(parts)
	}
	p.paused = paused
}

// feed gives held messages to the lanes, and looks for parked messages to handle again, until ctx ends. The blocked keys are
// loaded when the first records are here: their offset was read before (see [parking.Parking]). Until then they are loaded for
// each look, because a partition without new records has parked messages, too.
func (p *partition[Tx]) feed(ctx context.Context) {
	retry := time.NewTicker(p.config.RetryInterval)
	defer retry.Stop()
	loaded := false
	look := func() {
		p.use(func() {
			if loaded || p.load(ctx) {
				p.retry(ctx)
			}
		})
	}
	for {
		select {
		case <-p.wake:
			for !loaded {
				if !p.use(func() { loaded = p.load(ctx) }) || ctx.Err() != nil {
					return
				}
			}
			p.offer()
		case <-retry.C:
			look()
		case <-p.look:
			look()
		case <-ctx.Done():
			return
		}
	}
}

// wait reports false if ctx ends first.
func wait(ctx context.Context, d time.Duration) bool {
	pause := time.NewTimer(d)
	defer pause.Stop()
	select {
	case <-pause.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// use does work that needs the database, while that fails only when it is this caller's turn to try. It reports false if the
// partition was given up first.
func (p *partition[Tx]) use(work func()) bool {
	leave, ok := p.gate.enter(p.over)
	if ok {
		defer leave()
		work()
	}
	return ok
}

func (p *partition[Tx]) load(ctx context.Context) bool {
	blocked, err := p.parking.Blocked(ctx, p.at.topic, p.at.partition)
	p.looked(ctx, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.blocked, p.parked = blocked, len(blocked) > 0
	}
	return err == nil
}

// looked notes the result of a read of the parked messages.
func (p *partition[Tx]) looked(ctx context.Context, err error) {
	of := trouble{lookFails, p.at.topic, strconv.Itoa(int(p.at.partition))}
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, inbox.ErrDatabase):
		p.failed(err, false)
	case err != nil: // a row that cannot be decoded
		p.troubles.fails(of, err, "topic", p.at.topic, "partition", p.at.partition)
	default:
		p.troubles.ends(of)
		p.works(false)
	}
}

func (p *partition[Tx]) offer() {
	p.mu.Lock()
	for len(p.held) > 0 && p.lanes.Offer(p.held[0]) {
		p.held[0] = nil
		p.held = p.held[1:]
	}
	p.pause(p.paused && (len(p.held) > maxHeld/2 || p.bytes > p.share()/2))
	n := len(p.held) + p.lanes.Len()
	p.mu.Unlock()
	p.inFlight(n)
}

func (p *partition[Tx]) inFlight(n int) {
	p.observed(func(o Observer) { o.InFlight(p.at.topic, p.at.partition, n) })
}

// stop ends what the partition does, as [lanes.Lanes.Stop].
func (p *partition[Tx]) stop(ctx context.Context) error {
	p.end()
	p.ended.Wait()
	p.mu.Lock()
	p.pause(false) // a pause would outlive the partition
	p.mu.Unlock()
	err := p.lanes.Stop(ctx)
	p.mu.Lock()
	p.count(-p.bytes)
	p.left = true // what runs on finishes later
	p.mu.Unlock()
	p.inFlight(0) // of this consumer
	return err
}

// message is the task of a message.
func (p *partition[Tx]) message(ctx context.Context, m *inbox.Message) (again time.Duration) {
	if !p.use(func() { again = p.once(ctx, m) }) {
		return p.config.MaxBackoff // it is not finished
	}
	if again <= 0 {
		p.mu.Lock()
		p.count(-size(m))
		p.mu.Unlock()
	}
	return again
}

// once is one attempt of a message.
func (p *partition[Tx]) once(ctx context.Context, m *inbox.Message) (again time.Duration) {
	key, begun := parking.KeyOf(m), time.Now()
	if p.isBlocked(key) {
		blocked, err := p.parking.Follow(ctx, m)
		if retry := p.retryOf(key); retry != nil && errors.Is(err, parking.ErrFull) {
			return max(p.redo(ctx, key, retry), 1) // the retry waits behind this message in its lane
		}
		if err != nil {
			return p.later(ctx, m, m.Attempt, err, begun)
		}
		if blocked {
			p.works(true)
			p.observe(m, Parked, begun, nil)
			return 0
		}
		p.free(key)
	}
	m.Attempt++
	called := false
	repeat, err := p.in.Handle(ctx, m, p.handler(m, &called))
	pause := p.outage(key, err, called)
	switch {
	case err == nil && repeat:
		p.works(true)
		return p.repeated(ctx, m, begun)
	case err == nil:
		p.observe(m, Handled, begun, nil)
		return 0
	case !called && ctx.Err() == nil && !errors.Is(err, inbox.ErrDatabase) && !errors.Is(err, inbox.ErrInvalidMessage): // another transaction has its record
		m.Attempt--
		return max(p.later(ctx, m, m.Attempt, err, begun), p.config.Backoff)
	case p.tryAgain(ctx, m, err, m.Attempt, p.config.Attempts):
		return max(p.later(ctx, m, m.Attempt, err, begun), pause)
	case p.config.Stop, errors.Is(err, inbox.ErrInvalidMessage):
		return p.refuse(m, err)
	}
	return p.park(ctx, m, err, begun)
}

// handler calls the message's handler. The database has taken a write then, and others need not wait for the handler's end. It may set
// fields of the message and headers that it gets: the next attempt, the parking and the count of bytes need those that were polled.
func (p *partition[Tx]) handler(m *inbox.Message, called *bool) func(context.Context, Tx, *writer.Unit) error {
	return func(ctx context.Context, tx Tx, u *writer.Unit) error {
		*called = true
		p.works(true)
		given := *m
		given.Headers = slices.Clone(m.Headers)
		if p.config.Timeout < 0 {
			return p.handle(ctx, tx, u, &given)
		}
		limited, cancel := context.WithTimeout(ctx, p.config.Timeout)
		defer cancel()
		err := p.handle(limited, tx, u, &given)
		if err != nil && limited.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("the handler took longer than Config.Timeout (%v): %w", p.config.Timeout, err)
		}
		return err
	}
}

// refuse ends Run. The message stays unfinished.
func (p *partition[Tx]) refuse(m *inbox.Message, err error) time.Duration {
	p.fail(fmt.Errorf("handle record %s[%d]@%d: %w: repair the handler or the record, and start again", m.Topic, m.Partition, m.Offset, err))
	return p.config.MaxBackoff
}

// repeated looks whether the message is a repeat because it is parked.
func (p *partition[Tx]) repeated(ctx context.Context, m *inbox.Message, begun time.Time) time.Duration {
	parked, err := p.parking.IsParked(ctx, m)
	if err != nil {
		return p.later(ctx, m, m.Attempt, err, begun)
	}
	if parked {
		p.block(m)
	}
	p.observe(m, Repeat, begun, nil)
	return 0
}

func (p *partition[Tx]) park(ctx context.Context, m *inbox.Message, cause error, begun time.Time) time.Duration {
	parked, err := p.parking.Park(ctx, m, cause)
	switch {
	case err != nil:
		return p.later(ctx, m, m.Attempt, err, begun)
	case !parked:
		return p.repeated(ctx, m, begun)
	}
	p.works(true)
	p.block(m)
	p.config.Logger.Error("message parked", "topic", m.Topic, "partition", m.Partition, "offset", m.Offset, "attempts", m.Attempt, "error", cause)
	p.observe(m, Parked, begun, cause)
	return 0
}

// tryAgain reports whether the failed attempt is followed by another one. The database's failure, and the end of ctx, are no
// attempts.
func (p *partition[Tx]) tryAgain(ctx context.Context, m *inbox.Message, err error, attempts, most int) bool {
	if errors.Is(err, inbox.ErrDatabase) || ctx.Err() != nil {
		m.Attempt--
		return true
	}
	return attempts < most && !inbox.IsPermanent(err)
}

// later returns the pause after the attempts have failed.
func (p *partition[Tx]) later(ctx context.Context, m *inbox.Message, attempts int, err error, begun time.Time) time.Duration {
	if ctx.Err() != nil {
		return p.config.MaxBackoff // the partition is stopped: the message is not finished
	}
	p.observe(m, Failed, begun, err)
	if errors.Is(err, inbox.ErrDatabase) {
		p.failed(err, true)
		return 1 // it waits with all others
	}
	if attempts&(attempts-1) == 0 || errors.Is(err, parking.ErrFull) { // 5 of 25 attempts
		p.config.Logger.Warn("handle message", "topic", m.Topic, "partition", m.Partition, "offset", m.Offset, "attempt", m.Attempt, "error", err)
	}
	if errors.Is(err, inbox.ErrInvalidMessage) {
		return p.refuse(m, err)
	}
	if errors.Is(err, parking.ErrFull) {
		return p.config.MaxBackoff
	}
	if d, ok := errors.AsType[inbox.RetryAfter](err); ok {
		return max(time.Duration(d), 1)
	}
	return p.config.pause(max(attempts, 1))
}

func (p *partition[Tx]) isBlocked(key parking.Key) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.blocked[key]
}

// block notes that the message is parked. Behind one without a key no other one waits.
func (p *partition[Tx]) block(m *inbox.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.parked = true; m.Key != nil {
		p.blocked[parking.KeyOf(m)] = true
	}
}

func (p *partition[Tx]) free(key parking.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.blocked, key)
}

func (p *partition[Tx]) observe(m *inbox.Message, o Outcome, begun time.Time, err error) {
	p.observed(func(to Observer) { to.Handled(m, o, time.Since(begun), err) })
}

// observed calls the observer. Its panic is not the message's fault.
func (r *run[Tx]) observed(call func(Observer)) {
	if r.config.Observer == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			r.troubles.fails(trouble{what: observerFails}, &inbox.PanicError{Value: v, Stack: debug.Stack()})
		}
	}()
	call(r.config.Observer)
}
