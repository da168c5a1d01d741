package admin

import (
	"math"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// family is one of the relay's metrics, without "cdc_relay_".
type family struct {
	Name    string  `json:"name"`
	Samples []value `json:"samples"`
}

// value is a counter's or a gauge's, of a histogram the number of observations.
type value struct {
	Labels map[string]string `json:"labels,omitempty"`
	Value  float64           `json:"value"`
}

// families leaves out what is by topic: there may be many, and the page shows them from [topics].
func families(gathered []*dto.MetricFamily) []family {
	list := []family{}
	for _, f := range gathered {
		name, ours := strings.CutPrefix(f.GetName(), "cdc_relay_")
		if !ours {
			continue
		}
		out := family{Name: name}
		for _, m := range f.GetMetric() {
			v := valueOf(m)
			if _, byTopic := v.Labels["topic"]; byTopic || math.IsNaN(v.Value) || math.IsInf(v.Value, 0) { // JSON has neither
				continue
			}
			out.Samples = append(out.Samples, v)
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
	}
	return v
}
