package relay

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

type metrics struct {
	checkpointErrors prometheus.Counter
	lastCheckpoint   prometheus.Gauge
	reconnects       *prometheus.CounterVec
	stopped          *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer, r *Relay) *metrics {
	name := func(n, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "cdc_relay", Name: n, Help: help}
	}
	m := &metrics{
		checkpointErrors: prometheus.NewCounter(prometheus.CounterOpts(name("checkpoint_errors_total", "Saves of the position that failed."))),
		lastCheckpoint:   prometheus.NewGauge(prometheus.GaugeOpts(name("last_checkpoint_timestamp_seconds", "When the position was saved last, by the relay's clock; 0: never."))),
		reconnects:       prometheus.NewCounterVec(prometheus.CounterOpts(name("reconnects_total", "Failed attempts that were retried.")), []string{"component"}),
		stopped:          prometheus.NewGaugeVec(prometheus.GaugeOpts(name("stopped", "1 when the relay has stopped because of an error, by reason.")), []string{"reason"}),
	}
	for _, component := range []string{"source", "kafka"} { // a rate needs the 0 before the first
		m.reconnects.WithLabelValues(component)
	}
	gauge := func(n, help string, f func(Status) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts(name(n, help)), func() float64 { return f(r.Status()) })
	}
	reg.MustRegister(m.checkpointErrors, m.lastCheckpoint, m.reconnects, m.stopped,
		gauge("inflight_events", "Events read from the WAL or binlog whose position is not saved yet.", func(s Status) float64 { return float64(s.InFlightEvents) }),
		gauge("inflight_bytes", "Bytes of rows read from the WAL or binlog and not acknowledged by Kafka yet.", func(s Status) float64 { return float64(s.InFlightBytes) }),
		gauge("source_lag_seconds", "Age of the oldest event not acknowledged by Kafka, or of the last contact with the database while it is away; on MySQL and MariaDB at least how far behind the binlog is read; 0 when everything is published.", func(s Status) float64 { return s.Lag.Seconds() }),
		gauge("leader", "1 while this relay leads.", func(s Status) float64 { return oneIf(s.State == StateLeading) }),
		gauge("standby", "1 while this relay stands by, ready to take over.", func(s Status) float64 { return oneIf(s.State == StateStandby) }),
		gauge("stalled", "1 while events are in flight and Kafka has not acknowledged any for a while.", func(s Status) float64 { return oneIf(s.Stalled) }),
		gauge("connected", "1 while the WAL or binlog is being read.", func(s Status) float64 { return oneIf(s.Connected) }),
	)
	return m
}

func (m *metrics) stop(err error) {
	reason := "error"
	if stop, ok := errors.AsType[*cdc.StopError](err); ok {
		reason = stop.Reason
	}
	m.stopped.WithLabelValues(reason).Set(1)
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
