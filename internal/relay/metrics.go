package relay

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

type metrics struct {
	sourceErrors, kafkaErrors, saveErrors prometheus.Counter
	takeovers                             prometheus.Counter
	stopped                               *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer, r *Relay) *metrics {
	name := func(n, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "cdc_relay", Name: n, Help: help}
	}
	failed := func(component string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "cdc_relay", Name: "errors_total", Help: cdc.HelpErrors, ConstLabels: prometheus.Labels{"component": component},
		})
		reg.MustRegister(c)
		return c
	}
	m := &metrics{
		sourceErrors: failed("database"), kafkaErrors: failed("kafka"), saveErrors: failed("checkpoint"),
		takeovers: prometheus.NewCounter(prometheus.CounterOpts(name("takeovers_total", "Times that this relay began to lead after it had stood by."))),
		stopped:   prometheus.NewGaugeVec(prometheus.GaugeOpts(name("stopped", "1 when the relay has stopped because of an error, by reason.")), []string{"reason"}),
	}
	since := prometheus.NewDesc("cdc_relay_problem_since_timestamp_seconds", "Since when there is a problem with a component: database, kafka, checkpoint, write_back; absent without one.", []string{"component"}, nil)
	gauge := func(n, help string, f func(Status) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts(name(n, help)), func() float64 { return f(r.Status()) })
	}
	reg.MustRegister(m.takeovers, m.stopped, prometheus.CollectorFunc(func(ch chan<- prometheus.Metric) { r.problems(since, ch) }),
		gauge("inflight_events", "Events read from the WAL or binlog whose position is not saved yet.", func(s Status) float64 { return float64(s.InFlightEvents) }),
		gauge("source_lag_seconds", "Age of the oldest event not acknowledged by Kafka, or of the last contact with the database while it is away; at least how far behind the WAL or binlog is read, on PostgreSQL from 10 s on; 0 when everything is published.", func(s Status) float64 { return s.Lag.Seconds() }),
		gauge("leader", "1 while this relay leads.", func(s Status) float64 { return oneIf(s.State == StateLeading) }),
		gauge("standby", "1 while this relay stands by, ready to take over.", func(s Status) float64 { return oneIf(s.State == StateStandby) }),
		gauge("stalled", "1 while the oldest event in flight has waited for Kafka for a minute.", func(s Status) float64 { return oneIf(s.Stalled) }),
		gauge("connected", "1 while the WAL or binlog is being read.", func(s Status) float64 { return oneIf(s.Connected) }),
	)
	return m
}

// problems collects since when there is one, by component.
func (r *Relay) problems(since *prometheus.Desc, ch chan<- prometheus.Metric) {
	known := map[cdc.Dependency]bool{}
	for _, p := range r.opts.Problems.List() { // the oldest first
		if !known[p.With] {
			known[p.With] = true
			ch <- prometheus.MustNewConstMetric(since, prometheus.GaugeValue, float64(p.Since.UnixMilli())/1e3, string(p.With))
		}
	}
}

func (m *metrics) stop(err error) {
	m.stopped.WithLabelValues(cmp.Or(cdc.ReasonOf(err), "error")).Set(1)
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
