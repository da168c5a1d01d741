package deadletter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Summary returns the state of the letters; zero before Load.
func (r *Resolver) Summary() Summary {
	x := r.loaded.Load()
	if x == nil {
		return Summary{}
	}
	return x.Summary()
}

// Register registers the metrics.
func (r *Resolver) Register(reg prometheus.Registerer) {
	gauge := func(name, help string, value func(Summary) float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "cdc_relay_" + name, Help: help}, func() float64 { return value(r.Summary()) }))
	}
	gauge("dead_letters", "Events in the dead letters that are not resolved.", func(s Summary) float64 { return float64(s.Letters) })
	gauge("oldest_dead_letter_age_seconds", "Age of the oldest dead letter that is not resolved; 0 without one.", func(s Summary) float64 {
		if s.Oldest.IsZero() {
			return 0
		}
		return max(0, time.Since(s.Oldest).Seconds())
	})
}
