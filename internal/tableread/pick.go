package tableread

import (
	"context"
	"slices"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Picked is the rows of a table that a filter selected at one time. It is a [Table] of these rows: what the rows become afterwards does
// not change which they are, but a row that was deleted is not read.
type Picked struct {
	Table

	keys []Key
	next int
}

// Pick reads the keys of the rows that a filter selects, which take about 100 bytes each.
func Pick(ctx context.Context, t Table, f Filter) (*Picked, error) {
	return pick(ctx, t, f, keysAtOnce)
}

func pick(ctx context.Context, t Table, f Filter, atOnce int) (*Picked, error) {
	if err := t.Orderly(ctx, f); err != nil {
		return nil, err
	}
	bounds, err := t.Bounds(ctx)
	if err != nil {
		return nil, err
	}
	p := &Picked{Table: t}
	after := Key{}
	for _, w := range windows(bounds, f) {
		for more := true; more; {
			keys, err := t.Keys(ctx, f, w, after, atOnce)
			if err != nil {
				return nil, err
			}
			if more = len(keys) >= atOnce; len(keys) > 0 {
				after = keys[len(keys)-1]
			}
			p.keys = append(p.keys, keys...)
		}
	}
	p.keys = slices.Compact(p.keys) // an ID may be there twice if no index prevents it
	return p, nil
}

// Orderly implements [Table]: the rows have their places.
func (p *Picked) Orderly(context.Context, Filter) error { return nil }

// Bounds implements [Table]: the rows are not looked for.
func (p *Picked) Bounds(context.Context) ([]time.Time, error) { return nil, nil }

// Count implements [Table].
func (p *Picked) Count(context.Context, Filter) (int64, error) { return int64(len(p.keys)), nil }

// Keys implements [Table]. They can be read in order only, from the first on.
func (p *Picked) Keys(_ context.Context, _ Filter, _ Window, after Key, limit int) ([]Key, error) {
	if after == (Key{}) {
		p.next = 0
	}
	keys := p.keys[p.next:min(p.next+limit, len(p.keys))]
	p.next += len(keys)
	return keys, nil
}

// Sorts implements [Table]: between two of the rows there may be others.
func (p *Picked) Sorts() bool { return false }

// Rows implements [Table].
func (p *Picked) Rows(ctx context.Context, _ Filter, page Page, yield func(*cdc.Batch) error) error {
	return p.Table.Rows(ctx, Filter{}, page, yield)
}
