package backfill

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
)

// Selection is a table with the rows to publish.
type Selection struct {
	Table  tableread.Table
	Filter tableread.Filter
}

// Place is how far a replay has come: every selected row up to Key of the table is published, and all of the tables before it. These
// are Rows rows.
type Place struct {
	Table int           `json:"table"`
	Key   tableread.Key `json:"after"`
	Rows  int64         `json:"rows"`
	// Done adds those behind Key that are published too.
	Done int64 `json:"done"`
}

// Position is the position that a relay saves for p.
func (p Place) Position() cdc.Position {
	doc, _ := json.Marshal(p) // texts and numbers
	return cdc.Position(doc)
}

// PlaceAt is the place of a position; that of "" is before all rows.
func PlaceAt(p cdc.Position) (place Place, err error) {
	if p == "" {
		return place, nil
	}
	if err = json.Unmarshal([]byte(p), &place); err != nil {
		return place, fmt.Errorf("%q is no place of a replay: %w", p, err)
	}
	return place, nil
}

// Replay is a source of the relay. It implements relay.Source. A row is published once or more if the relay ends early and another one
// begins at the position that was saved last.
type Replay struct {
	feed

	selections []Selection
	rate       int
	from       Place

	mu sync.Mutex
	// places are those to go on from once a batch is durable, from the batch first on, which is the last that is confirmed.
	places []Place
	first  uint64
}

// NewReplay returns a Replay that publishes rate events a second; 0: no limit.
func NewReplay(selections []Selection, rate int) *Replay {
	return &Replay{feed: newFeed(), selections: selections, rate: rate, places: []Place{{}}}
}

// Rows returns how many rows are published and saved since Acquire.
func (r *Replay) Rows() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.places[0].Done - r.from.Rows
}

// Acquire implements relay.Source. It takes nothing: other replays and the relay may read the table meanwhile.
func (r *Replay) Acquire(ctx context.Context, load cdc.Resumer) (cdc.Source, cdc.Position, error) {
	c, _, err := load(ctx, cdc.Source{})
	if err != nil {
		return cdc.Source{}, "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.from, err = PlaceAt(c.Progress.Position); err != nil {
		return cdc.Source{}, "", err
	}
	r.from.Done = r.from.Rows
	r.places, r.first = []Place{r.from}, r.handed.Load()
	return cdc.Source{}, c.Progress.Position, nil
}

// Release implements relay.Source.
func (r *Replay) Release(context.Context) { r.rewind() }

// Progress implements relay.Source.
func (r *Replay) Progress(seq uint64) cdc.Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return cdc.Progress{Position: r.places[max(seq, r.first)-r.first].Position()}
}

// Confirm implements relay.Source.
func (r *Replay) Confirm(seq uint64) {
	r.mu.Lock()
	if seq > r.first {
		r.places, r.first = r.places[seq-r.first:], seq
	}
	r.mu.Unlock()
	r.feed.Confirm(seq)
}

// Run implements relay.Source. An error ends the replay: its state tells where the next one goes on.
func (r *Replay) Run(ctx context.Context, q cdc.Queue) error {
	return r.leave(ctx, r.publish(ctx, q), func(err error) error {
		return cdc.Stop(cdc.ClassRuntime, cmp.Or(cdc.ReasonOf(err), "replay_interrupted"), err, "")
	})
}

func (r *Replay) publish(ctx context.Context, q cdc.Queue) error {
	limit := r.limiter()
	at := r.from
	for at.Table < len(r.selections) {
		s := &r.selections[at.Table]
		err := tableread.Each(ctx, s.Table, s.Filter, at.Key, nil, func(b *cdc.Batch, done tableread.Key) error {
			if b == nil {
				return nil
			}
			if done != at.Key {
				at.Key, at.Rows = done, at.Done
			}
			for _, piece := range pieces(b, r.rate) {
				if err := limit.WaitN(ctx, piece.Rows()); err != nil {
					return err
				}
				at.Done += int64(piece.Rows())
				r.noted(at)
				if err := r.hand(ctx, q, piece); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		at = Place{Table: at.Table + 1, Rows: at.Done, Done: at.Done}
	}
	r.noted(at)
	return r.finish(ctx, q)
}

// noted notes the place to go on from once the next batch is durable: where its page begins. That precedes the offer: the batch may be
// durable before it returns.
func (r *Replay) noted(p Place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.places = append(r.places, p)
}

// limiter keeps to the rate. What Kafka or the table took longer for is made up for if it was no more than a tenth of a second.
func (r *Replay) limiter() *rate.Limiter {
	if r.rate == 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	l := rate.NewLimiter(rate.Limit(r.rate), max(1, r.rate/10))
	l.AllowN(time.Now(), l.Burst()) // it begins full
	return l
}

// pieces cuts a batch into those of a millisecond, so that a live stream does not wait behind bursts; rate 0 leaves it whole.
func pieces(b *cdc.Batch, rate int) []*cdc.Batch {
	rows, width, n := b.Rows(), len(b.Table.Columns), max(1, rate/1000)
	if rate == 0 || rows <= n {
		return []*cdc.Batch{b}
	}
	var list []*cdc.Batch
	for from := 0; from < rows; from += n {
		to := min(from+n, rows)
		piece := &cdc.Batch{Table: b.Table, Arena: b.Arena, Spans: b.Spans[from*width : to*width], Txs: b.Txs[from:to:to], Bytes: b.Bytes * (to - from) / rows}
		for i := range piece.Txs {
			piece.Txs[i].Row -= from
		}
		list = append(list, piece)
	}
	return list
}
