package admin

import (
	"fmt"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// pageOnly begins the names of metrics that the page reads and /metrics does not serve.
const pageOnly = "cdc_relay_page_"

// exposed are the metrics of /metrics.
func (o Options) exposed() ([]*dto.MetricFamily, error) {
	list, err := o.Gatherer.Gather()
	list = slices.DeleteFunc(list, func(f *dto.MetricFamily) bool { return strings.HasPrefix(f.GetName(), pageOnly) })
	for _, f := range list {
		if !o.TopicLabel {
			f.Metric = withoutTopics(f.GetMetric())
		}
		for _, m := range f.GetMetric() {
			if h := m.GetHistogram(); h != nil && !o.ClassicHistograms {
				h.Bucket = nil
			}
		}
	}
	return list, err
}

// withoutTopics sums counters over the label topic.
func withoutTopics(list []*dto.Metric) (sums []*dto.Metric) {
	by := map[string]*dto.Metric{}
	for _, m := range list {
		m.Label = slices.DeleteFunc(slices.Clone(m.GetLabel()), func(l *dto.LabelPair) bool { return l.GetName() == "topic" })
		key := fmt.Sprint(m.GetLabel())
		if first := by[key]; first != nil && m.GetCounter() != nil {
			*first.Counter.Value += m.GetCounter().GetValue()
			continue
		}
		by[key] = m
		sums = append(sums, m)
	}
	return sums
}
