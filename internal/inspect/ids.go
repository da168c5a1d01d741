package inspect

import (
	"context"
	"slices"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
)

// askedIDs says of each event ID why no event of the tables so far can have it; nil: those of a table can.
type askedIDs map[string]error

// of returns the IDs that events of a table can have, by its prefix and its type.
func (a askedIDs) of(ctx context.Context, t tableread.Table, ids []string) ([]string, error) {
	_, err := t.Count(ctx, tableread.Filter{IDs: ids})
	switch {
	case cdc.ReasonOf(err) != tableread.ReasonNotAnID:
		for _, id := range ids {
			a[id] = nil
		}
		return ids, err
	case len(ids) == 1:
		if _, known := a[ids[0]]; !known {
			a[ids[0]] = err
		}
		return nil, nil
	}
	some, err := a.of(ctx, t, ids[:len(ids)/2])
	if err != nil {
		return nil, err
	}
	more, err := a.of(ctx, t, ids[len(ids)/2:])
	return slices.Concat(some, more), err
}
