package cleanup

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// partitionMetrics are what the last pass saw, by table.
type partitionMetrics struct {
	ahead, age, rows, waiting *prometheus.GaugeVec
	errors                    prometheus.Counter
}

func newPartitionMetrics(reg prometheus.Registerer) *partitionMetrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return promauto.With(reg).NewGaugeVec(prometheus.GaugeOpts{Namespace: "cdc_relay", Name: name, Help: help}, []string{"table"})
	}
	return &partitionMetrics{
		ahead:   gauge("partitions_ahead", "Daily partitions after today's, without a gap."),
		age:     gauge("page_oldest_partition_age_seconds", "Age of the oldest day that is stored, at the last pass."),
		rows:    gauge("default_partition_rows", "Rows in the default partition, counted up to 100,000."),
		waiting: gauge("partitions_unrelayed", "Partitions past the TTL that are kept because they hold events whose position is not saved."),
		errors:  errorsOf("partitions", reg),
	}
}

// errorsOf registers the counter of a component's errors.
func errorsOf(component string, reg prometheus.Registerer) prometheus.Counter {
	return promauto.With(reg).NewCounter(prometheus.CounterOpts{
		Namespace: "cdc_relay", Name: "errors_total", Help: cdc.HelpErrors, ConstLabels: prometheus.Labels{"component": component},
	})
}

func (m *partitionMetrics) set(table string, parts []cdc.Partition, rows int64, now time.Time) {
	m.ahead.WithLabelValues(table).Set(float64(Ahead(parts, now)))
	m.rows.WithLabelValues(table).Set(float64(rows))
	if since := oldest(parts); !since.IsZero() {
		m.age.WithLabelValues(table).Set(now.Sub(since).Seconds())
	}
}
