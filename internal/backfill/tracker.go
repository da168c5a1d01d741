package backfill

import (
	"context"
	"sync"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// tracker knows which batches are acknowledged.
type tracker struct {
	mu sync.Mutex
	// open are the batches that were sent, from the first that is not acknowledged; first is its number.
	open  []sending
	first uint64
	// last is the number of the last batch, place the one behind it.
	last      uint64
	place     Place
	published int64
	dropped   int64
	ended     bool
	idle      chan struct{} // closed once everything is acknowledged and nothing more comes
	unused    []*cdc.Routed
}

// sending is a batch that was sent.
type sending struct {
	place  Place // before it
	routed *cdc.Routed
	done   bool
}

func newTracker(from Place) *tracker {
	return &tracker{first: 1, place: from, idle: make(chan struct{})}
}

// next returns the memory for the messages of b, which is numbered.
func (t *tracker) next(b *cdc.Batch, place Place) (*cdc.Routed, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	b.Seq, t.place = t.last, place
	r := new(cdc.Routed)
	if n := len(t.unused); n > 0 {
		r, t.unused = t.unused[n-1], t.unused[:n-1]
	}
	r.Reset(b)
	return r, nil
}

func (t *tracker) sent(r *cdc.Routed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = append(t.open, sending{place: t.place, routed: r})
}

// reached notes the place behind everything that was sent.
func (t *tracker) reached(p Place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.place = p
}

// end says that nothing more is sent.
func (t *tracker) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	t.checkIdle()
}

func (t *tracker) checkIdle() {
	if t.ended && len(t.open) == 0 {
		close(t.idle)
	}
}

// receive takes the sink's answers until everything is acknowledged.
func (t *tracker) receive(ctx context.Context, answers <-chan cdc.Durable) error {
	for {
		select {
		case a := <-answers:
			if a.Err != nil {
				return a.Err
			}
			t.acknowledged(a)
		case <-t.idle:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (t *tracker) acknowledged(a cdc.Durable) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for seq := a.First; seq <= a.Last; seq++ {
		t.open[seq-t.first].done = true
	}
	for len(t.open) > 0 && t.open[0].done {
		r := t.open[0].routed
		t.published += int64(len(r.Messages))
		t.dropped += int64(len(r.Drops))
		t.unused = append(t.unused, r)
		t.open[0] = sending{}
		t.open, t.first = t.open[1:], t.first+1
	}
	t.checkIdle()
}

// progress returns what is published without a gap.
func (t *tracker) progress() Progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := Progress{Published: t.published, Dropped: t.dropped, Place: t.place}
	if len(t.open) > 0 {
		p.Place = t.open[0].place
	}
	return p
}
