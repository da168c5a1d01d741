package cleanup

import "context"

// Run maintains the partitions at once and then at every interval, until ctx ends. What cannot be done is logged, and done
// later: it never ends the relay.
func (m *Maintainer) Run(ctx context.Context) {
	for {
		if err := m.Maintain(ctx); err != nil && ctx.Err() == nil {
			m.log.Warn("partitions not maintained, trying again later", "error", err, "pause", m.opts.Every.String())
			m.metrics.failed()
		}
		if sleep(ctx, m.opts.Every) != nil {
			return
		}
	}
}
