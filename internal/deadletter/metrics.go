package deadletter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Summary returns the state of the letters; zero before Load, and nil of a relay without them.
func (r *Resolver) Summary() *cdc.DeadLetters {
	if r == nil {
		return nil
	}
	if x := r.loaded.Load(); x != nil {
		return x.Summary()
	}
	return new(cdc.DeadLetters)
}

// Register registers the metrics.
func (r *Resolver) Register(reg prometheus.Registerer) {
	gauge := func(name, help string, value func(*cdc.DeadLetters) float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "cdc_relay_" + name, Help: help}, func() float64 { return value(r.Summary()) }))
	}
	gauge("dead_letters", "Events in the dead letters that are not resolved.", func(s *cdc.DeadLetters) float64 { return float64(s.Events) })
	gauge("oldest_dead_letter_age_seconds", "Age of the oldest dead letter that is not resolved; 0 without one.", func(s *cdc.DeadLetters) float64 {
		if s.Oldest.IsZero() {
			return 0
		}
		return max(0, time.Since(s.Oldest).Seconds())
	})
}
