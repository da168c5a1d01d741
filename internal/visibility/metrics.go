package visibility

import "github.com/prometheus/client_golang/prometheus"

// NewWaited returns the histogram for Options.Waited, not registered yet.
func NewWaited() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "cdc_relay", Name: "source_visibility_wait_seconds",
		Help:    "Time that a batch was held back until a statement on the database sees its rows. A batch that an earlier answer shows is not counted.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
	})
}
