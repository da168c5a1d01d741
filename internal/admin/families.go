package admin

import (
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// family is one of the relay's metrics, without "cdc_relay_".
type family struct {
	Name    string  `json:"name"`
	Samples []value `json:"samples"`
}

// value is a counter's or a gauge's. Of a histogram it is the number of observations, with their 99th percentile since the start.
type value struct {
	Labels map[string]string `json:"labels,omitempty"`
	Value  float64           `json:"value"`
	P99    *float64          `json:"p99,omitempty"`
}

// familiesFor is how long an answer is given again: many clients cost no more than one.
const familiesFor = 2 * time.Second

type cachedFamilies struct {
	mu   sync.Mutex
	at   time.Time
	list []family
}

func (a *api) metrics(w http.ResponseWriter, _ *http.Request) {
	c := &a.families
	c.mu.Lock()
	if time.Since(c.at) > familiesFor {
		c.list, c.at = families(a.o.Gatherer), time.Now()
	}
	list := c.list
	c.mu.Unlock()
	answer(w, http.StatusOK, list)
}

func families(g prometheus.Gatherer) []family {
	list := []family{}
	gathered, _ := g.Gather() // metrics of a failing collector are missing
	for _, f := range gathered {
		name, ours := strings.CutPrefix(f.GetName(), "cdc_relay_")
		if !ours {
			continue
		}
		out := family{Name: name}
		for _, m := range f.GetMetric() {
			if v := valueOf(m); !math.IsNaN(v.Value) && !math.IsInf(v.Value, 0) { // JSON has neither
				out.Samples = append(out.Samples, v)
			}
		}
		list = append(list, out)
	}
	return list
}

func valueOf(m *dto.Metric) value {
	v := value{}
	if len(m.GetLabel()) > 0 {
		v.Labels = map[string]string{}
	}
	for _, l := range m.GetLabel() {
		v.Labels[l.GetName()] = l.GetValue()
	}
	switch {
	case m.GetCounter() != nil:
		v.Value = m.GetCounter().GetValue()
	case m.GetGauge() != nil:
		v.Value = m.GetGauge().GetValue()
	case m.GetHistogram() != nil:
		v.Value = float64(m.GetHistogram().GetSampleCount())
		v.P99 = p99(m.GetHistogram())
	}
	return v
}

// p99 is the upper bound of the bucket with the 99th percentile; nil without one.
func p99(h *dto.Histogram) *float64 {
	if h.GetSampleCount() == 0 {
		return nil
	}
	rank := uint64(math.Ceil(0.99 * float64(h.GetSampleCount())))
	buckets := h.GetBucket()
	i := slices.IndexFunc(buckets, func(b *dto.Bucket) bool { return b.GetCumulativeCount() >= rank })
	if i < 0 || math.IsInf(buckets[i].GetUpperBound(), 0) {
		return nil
	}
	bound := buckets[i].GetUpperBound()
	return &bound
}
