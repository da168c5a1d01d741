package kgoinbox

import (
	"context"
	"errors"
	"time"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/parking"
)

// attempt counts how often a parked message was tried since its retry began.
type attempt struct{ n int }

// retryAttempts are fewer than those of a new message: the key's newer ones wait meanwhile, and whoever asked for the retry too.
const retryAttempts = 5

// readyRows is how many keys [parking.Parking.Ready] returns at most.
const readyRows = 100

// dropOld is the fix for what is parked when offsets begin anew: parked messages of a key are in the order of offsets.
const dropOld = "drop parked messages of the topic that must not be handled after new ones of their key"

// retry puts a task into the lane of each key that has parked messages to handle now.
func (p *partition[Tx]) retry(ctx context.Context) {
	p.mu.Lock()
	parked := p.parked
	p.parked = false // what is parked meanwhile sets it
	p.mu.Unlock()
	if !parked {
		return
	}
	rows, err := p.parking.Ready(ctx, p.at.topic, p.at.partition)
	p.looked(ctx, err)
	n := int64(len(rows))
	if n == 0 && err == nil {
		n, err = p.parking.Count(ctx, parking.Filter{Topic: p.at.topic, Partition: &p.at.partition})
	}
	for _, row := range rows {
		key := parking.KeyOf(row.Message)
		if p.retryOf(key) != nil {
			continue
		}
		retry := new(attempt)
		p.block(row.Message)
		p.mu.Lock()
		p.retrying[key] = retry
		p.mu.Unlock()
		p.lanes.Do(row.Message.Key, func(ctx context.Context) (again time.Duration) {
			if !p.use(func() { again = p.redo(ctx, key, retry) }) {
				return p.config.MaxBackoff
			}
			return again
		})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parked = p.parked || n > 0 || err != nil
	p.more = len(rows) == readyRows
	p.lookAgain()
}

// lookAgain is called with p.mu. The next look is due when half of the keys of a full one are done: it finds the other half again.
func (p *partition[Tx]) lookAgain() {
	if p.more && len(p.retrying) <= readyRows/2 {
		p.more = false
		select {
		case p.look <- struct{}{}:
		default:
		}
	}
}

// redo handles the first parked message of a key, and runs again until none is left or one fails, or the retry was ended before it came
// to the front of its lane.
func (p *partition[Tx]) redo(ctx context.Context, key parking.Key, retry *attempt) (again time.Duration) {
	if p.retryOf(key) != retry {
		return 0
	}
	begun := time.Now()
	row, err := p.parking.First(ctx, p.at.topic, p.at.partition, key)
	p.looked(ctx, err)
	switch {
	case errors.Is(err, inbox.ErrDatabase):
		return 1
	case err != nil: // what is behind a row that cannot be decoded waits until it is dropped
		p.retried(key)
		return 0
	case row == nil:
		p.free(key)
		p.retried(key)
		return 0
	}
	m := row.Message
	m.Attempt += 1 + retry.n
	called := false
	done, err := p.parking.Redo(ctx, row, p.handler(m, &called))
	pause := p.outage(key, err, called)
	if err == nil {
		if retry.n = 0; done {
			p.observe(m, Handled, begun, nil)
		}
		return 1 // the next one of the key
	}
	if p.tryAgain(ctx, m, err, retry.n+1, min(p.config.Attempts, retryAttempts)) {
		if !errors.Is(err, inbox.ErrDatabase) {
			retry.n++
		}
		return max(p.later(ctx, m, retry.n, err, begun), pause)
	}
	if err := p.parking.Failed(ctx, row, err); err != nil {
		return p.later(ctx, m, retry.n, err, begun)
	}
	p.observe(m, Parked, begun, err)
	p.retried(key)
	return 0
}

func (p *partition[Tx]) retryOf(key parking.Key) *attempt {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.retrying[key]
}

func (p *partition[Tx]) retried(key parking.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.retrying, key)
	p.lookAgain()
}
