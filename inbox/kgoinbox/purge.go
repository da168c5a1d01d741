package kgoinbox

import (
	"context"
	"time"
)

const (
	purgeInterval = 10 * time.Minute
	purgeBatch    = 1000
)

// purgeRegularly deletes old rows of the inbox while this consumer has a partition 0: one of the group is enough.
func (r *run[Tx]) purgeRegularly(ctx context.Context) {
	for wait(ctx, min(purgeInterval, r.config.Keep)) {
		first := false
		for at := range r.owned(nil) {
			first = first || at.partition == 0
		}
		if !first {
			continue
		}
		_, err := r.in.Purge(ctx, time.Now().Add(-r.config.Keep), purgeBatch)
		switch {
		case err != nil && ctx.Err() == nil:
			r.troubles.fails(trouble{what: purgeFails}, err)
		case err == nil:
			r.troubles.ends(trouble{what: purgeFails})
		}
	}
}
