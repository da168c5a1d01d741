package retention

import (
	"context"
	"slices"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Guard returns an error that says why rows have to stay although they are published and their position is saved: a dead letter of
// this relay, or of another relay of the same tables, may need them. nil: no row is needed. It is asked last: a row that is relayed
// by then has its letter.
type Guard func(ctx context.Context) error

// Unguarded is the [Guard] of tables whose relays have no dead letters.
func Unguarded(context.Context) error { return nil }

// List returns the partitions of a table, and the time by the database's clock. Those that are relayed are kept while the guard
// returns an error.
func (g Guard) List(ctx context.Context, t Table) ([]cdc.Partition, time.Time, error) {
	parts, now, err := t.List(ctx)
	if err != nil || !slices.ContainsFunc(parts, func(p cdc.Partition) bool { return p.Relayed }) {
		return parts, now, err
	}
	if why := g(ctx); why != nil {
		for i := range parts {
			if parts[i].Relayed {
				parts[i].Relayed, parts[i].Kept = false, why
			}
		}
	}
	return parts, now, nil
}

// passed is [Rows.Passed]; it is an error while the guard returns one.
func (g Guard) passed(ctx context.Context, t Rows, behind cdc.Position) (bool, error) {
	passed, err := t.Passed(ctx, behind)
	if passed && err == nil {
		err = g(ctx)
	}
	return passed, err
}
