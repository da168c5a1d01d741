package inspect

import (
	"context"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
)

// askedIDs says of each event ID why no event of the tables so far can have it; nil: those of a table can.
type askedIDs map[string]error

// of returns the IDs that events of a table can have, by its prefix and its type.
func (a askedIDs) of(ctx context.Context, t tableread.Table, ids []string) (some []string, err error) {
	for _, id := range ids {
		_, err := t.Count(ctx, tableread.Filter{IDs: []string{id}})
		switch _, known := a[id]; {
		case err == nil:
			a[id], some = nil, append(some, id)
		case cdc.ReasonOf(err) != tableread.ReasonNotAnID:
			return nil, err
		case !known:
			a[id] = err
		}
	}
	return some, nil
}
