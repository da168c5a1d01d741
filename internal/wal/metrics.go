package wal

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// slotStates are the values of pg_replication_slots.wal_status.
func slotStates() []string { return []string{"reserved", "extended", "unreserved", "lost"} }

type metrics struct {
	received, filtered *prometheus.CounterVec
	slotStatus         *prometheus.GaugeVec
	// These have no labels, and no value before the first look: a standby has not looked.
	lagBytes, retained, safe, clock *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "cdc_relay", Name: name, Help: help}, nil)
	}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "cdc_relay", Name: name, Help: help}, []string{"table"})
	}
	m := &metrics{
		received: counter("events_received_total", "Rows of outbox tables received from the WAL or binlog and handed on."),
		filtered: counter("events_filtered_total", "Rows received and not handed on: replayed after a restart, or of a table that is not configured."),
		lagBytes: gauge("source_lag_bytes", "WAL written by the server and not received yet, at the last look."),
		retained: gauge("slot_retained_bytes", "WAL that the server keeps for the slot."),
		safe:     gauge("slot_safe_bytes", "WAL that may still be written before the slot is in danger of being lost; -1 where max_slot_wal_keep_size sets no limit."),
		slotStatus: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "cdc_relay", Name: "slot_status",
			Help: "1 for the slot's current wal_status.",
		}, []string{"status"}),
		clock: gauge("clock_skew_seconds", cdc.HelpClock),
	}
	m.filtered.WithLabelValues(otherTable) // a rate needs the 0 before the first
	reg.MustRegister(m.received, m.filtered, m.lagBytes, m.retained, m.safe, m.slotStatus, m.clock)
	return m
}

func (m *metrics) observeSlot(s cdc.SlotStatus) {
	m.lagBytes.WithLabelValues().Set(float64(s.LagBytes))
	m.retained.WithLabelValues().Set(float64(s.RetainedBytes))
	safe := int64(-1)
	if s.SafeBytes != nil {
		safe = *s.SafeBytes
	}
	m.safe.WithLabelValues().Set(float64(safe))
	for _, state := range slotStates() {
		v := 0.0
		if state == s.Status {
			v = 1
		}
		m.slotStatus.WithLabelValues(state).Set(v)
	}
}
