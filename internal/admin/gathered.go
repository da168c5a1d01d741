package admin

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// gatheredFor is how long gathered metrics are given again: many clients cost no more than one.
const gatheredFor = time.Second

// gathered caches the metrics of a gatherer. What Gather returns must not be changed.
type gathered struct {
	from prometheus.Gatherer

	mu   sync.Mutex
	at   time.Time
	list []*dto.MetricFamily
	err  error
}

// Gather returns the metrics as of at most gatheredFor ago.
func (g *gathered) Gather() ([]*dto.MetricFamily, error) {
	list, _, err := g.last()
	return list, err
}

// last is Gather with the time of the metrics.
func (g *gathered) last() ([]*dto.MetricFamily, time.Time, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.at) > gatheredFor {
		g.list, g.err = g.from.Gather()
		g.at = time.Now()
	}
	return g.list, g.at, g.err
}
