package cleanup

import (
	"context"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Run maintains the partitions at once and then at every interval, until ctx ends. What cannot be done is logged, and done
// later: it never ends the relay.
func (m *Maintainer) Run(ctx context.Context, _ cdc.Kept) {
	for {
		if err := m.Maintain(ctx); err != nil && ctx.Err() == nil {
			m.log.Warn("partitions not maintained, trying again later", "error", err, "pause", m.opts.Every.String())
			m.metrics.errors.Inc()
		}
		if sleep(ctx, m.opts.Every) != nil {
			return
		}
	}
}
