package cleanup

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// DeleteOptions are how old rows are deleted.
type DeleteOptions struct {
	// Batch is how many rows are deleted in one transaction.
	Batch int
	// Every is the time between two passes.
	Every time.Duration
	// Patience is how long a pass waits for the relay to have published and saved what it found; 0: as long as it takes.
	Patience time.Duration
	// Kept is why rows are kept although they are published; nil: they are not.
	Kept error
	// Load returns the stored position.
	Load cdc.Loader
}

// batchesRead is how many batches are read at once, so that the relay's position is waited for less often.
const batchesRead = 50

// NewDeletes returns what deletes old rows, and registers its metrics.
func NewDeletes(o DeleteOptions, open Tables, log *slog.Logger, reg prometheus.Registerer) *Sweeper {
	return &Sweeper{
		open: open, log: log, failed: "old rows not deleted", every: o.Every, tick: readPause, patience: cmp.Or(o.Patience, time.Minute), deletes: &o,
		limit: batchesRead * o.Batch, maxWaiting: 1, batch: func(int) int { return o.Batch }, pause: 100 * time.Millisecond,
		counted: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
			Namespace: "cdc_relay", Name: "rows_deleted_total", Help: "Rows deleted from outbox tables because of retention.keep.",
		}, []string{"table"}),
		errors: errorsOf("deletion", reg),
	}
}

func errBehind(t Rows) error {
	return cdc.Fixable("start the relay, or find out why it lags; if it always lags that much, make retention.keep longer",
		"old rows of %s may hold events whose position is not saved yet", t.Name())
}
