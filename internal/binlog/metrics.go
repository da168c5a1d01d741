package binlog

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

type metrics struct {
	received, filtered *prometheus.CounterVec
	expire             prometheus.Gauge
	clock              prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "cdc_relay", Name: name, Help: help}, []string{"table"})
	}
	m := &metrics{
		received: counter("events_received_total", "Rows of outbox tables received from the WAL or binlog and handed on."),
		filtered: counter("events_filtered_total", "Row events received and not handed on: of tables that are not configured."),
		expire: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "cdc_relay", Name: "binlog_expire_seconds",
			Help: "How long the server keeps its binlogs (binlog_expire_logs_seconds), as of the last start; 0: until they are purged by hand.",
		}),
		clock: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "cdc_relay", Name: "clock_skew_seconds", Help: cdc.HelpClock}),
	}
	reg.MustRegister(m.received, m.filtered, m.expire, m.clock)
	return m
}
