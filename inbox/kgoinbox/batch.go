package kgoinbox

import (
	"context"
	"errors"
	"time"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/parking"
	"github.com/cdc-relay/cdc-relay/writer"
)

// batch is the task of several messages: it handles them in one transaction, except those of blocked keys. It returns those that are
// to be handled one at a time, all if one fails.
func (p *partition[Tx]) batch(ctx context.Context, ms []*inbox.Message) (rest []*inbox.Message) {
	var free, repeats []*inbox.Message
	for _, m := range ms {
		if p.isBlocked(parking.KeyOf(m)) {
			rest = append(rest, m)
		} else {
			free = append(free, m)
		}
	}
	for opened := -1; len(free) > 1; {
		var err error
		ok := p.use(func() {
			if repeats, err = p.together(ctx, free); errors.Is(err, inbox.ErrDatabase) && ctx.Err() == nil {
				p.failed(err, true) // they wait with all others
			}
		})
		switch {
		case ok && err == nil:
			return append(rest, repeats...)
		case !ok, ctx.Err() != nil, !errors.Is(err, inbox.ErrDatabase):
			return ms
		}
		// If the database has worked since the last failure, it may be one message's: another server's, for which its handler waits.
		n := p.gate.times()
		if opened >= 0 && n != opened {
			return ms
		}
		opened = n
	}
	return ms
}

// errRepeat means that a new message is behind a repeat of its key, which may be parked.
var errRepeat = errors.New("a new message follows a repeat of its key")

// together is one attempt of a batch. It returns the repeats if some may be parked.
func (p *partition[Tx]) together(ctx context.Context, ms []*inbox.Message) (repeats []*inbox.Message, err error) {
	begun := time.Now()
	repeats, err = p.in.HandleBatch(ctx, ms, func(ctx context.Context, tx Tx, u *writer.Unit, first []*inbox.Message) error {
		p.works(true)
		if repeatInFront(ms, first) {
			return errRepeat
		}
		for _, m := range first {
			m.Attempt = 1
			if err := p.handler(m, new(bool))(ctx, tx, u); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		for _, m := range ms {
			m.Attempt = 0 // its first one is when it is alone
		}
		return nil, err
	}
	p.works(true)
	p.finished(without(ms, repeats), Handled, begun)
	if len(repeats) == 0 {
		return nil, nil
	}
	if parked, err := p.parking.IsParked(ctx, repeats...); parked || err != nil {
		return repeats, nil //nolint:nilerr // the batch is committed, and each of them asks again
	}
	p.finished(repeats, Repeat, begun)
	return nil, nil
}

func (p *partition[Tx]) finished(ms []*inbox.Message, o Outcome, begun time.Time) {
	bytes := 0
	for _, m := range ms {
		p.observe(m, o, begun, nil)
		bytes += size(m)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count(-bytes)
}

// without returns what is in all and not in some.
func without(all, some []*inbox.Message) (rest []*inbox.Message) {
	in := make(map[*inbox.Message]bool, len(some))
	for _, m := range some {
		in[m] = true
	}
	for _, m := range all {
		if !in[m] {
			rest = append(rest, m)
		}
	}
	return rest
}

// repeatInFront reports whether one of the first, which are in the order of all, is behind a repeat of its key.
func repeatInFront(all, first []*inbox.Message) bool {
	repeated := map[string]bool{}
	for _, m := range all {
		switch {
		case len(first) == 0 || m != first[0]:
			repeated[string(m.Key)] = repeated[string(m.Key)] || m.Key != nil
		case m.Key != nil && repeated[string(m.Key)]:
			return true
		default:
			first = first[1:]
		}
	}
	return false
}
