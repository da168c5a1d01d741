package admin

import (
	"fmt"
	"maps"
	"math"
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
		if first := by[key]; first != nil {
			*first.Counter.Value += m.GetCounter().GetValue()
			continue
		}
		by[key] = m
		sums = append(sums, m)
	}
	return sums
}

// spread is the state of a native histogram.
type spread struct {
	schema    int32
	all, zero uint64
	buckets   map[int32]uint64
}

func spreadOf(h *dto.Histogram) spread {
	s := spread{h.GetSchema(), h.GetSampleCount(), h.GetZeroCount(), map[int32]uint64{}}
	i, n, deltas := int32(0), int64(0), h.GetPositiveDelta()
	for _, span := range h.GetPositiveSpan() {
		i += span.GetOffset()
		for range span.GetLength() {
			n += deltas[0]
			s.buckets[i] = uint64(max(0, n))
			i, deltas = i+1, deltas[1:]
		}
	}
	return s
}

// quantile is of the observations since an earlier state; nil: there are none.
func (s spread) quantile(was spread, q float64) *float64 {
	if was.schema != s.schema { // there were too many buckets
		was = spread{}
	}
	rank, below := q*float64(s.all-was.all), float64(s.zero-was.zero)
	if s.all == was.all {
		return nil
	}
	v := 0.0
	for _, i := range slices.Sorted(maps.Keys(s.buckets)) {
		n := float64(s.buckets[i] - was.buckets[i])
		if below >= rank {
			break
		}
		v = math.Exp2((float64(i-1) + min(1, (rank-below)/n)) * math.Exp2(-float64(s.schema)))
		below += n
	}
	return &v
}
