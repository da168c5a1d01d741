package admin

import (
	"math"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// numbers are what the page shows of the metrics, at a time. Nothing else of this package knows their names.
type numbers struct {
	at     time.Time
	topics map[string]counts
	// counters are the counters by their name without "cdc_relay_" and "_total", summed over their labels.
	counters map[string]float64
	// all are the gauges without labels, and tables those with a table, by their name without "cdc_relay_".
	all    map[string]float64
	tables map[string]map[string]float64
	// acks are the times from commit to acknowledgement, sent those from a request to its answer.
	acks, sent buckets
}

// counts are a topic's since the start. Retried attempts may succeed later; rejected ones cannot without a person.
type counts struct {
	published, retried, rejected float64
	acks                         buckets
}

func numbersOf(families []*dto.MetricFamily, at time.Time) *numbers {
	n := &numbers{at: at, topics: map[string]counts{}, counters: map[string]float64{}, all: map[string]float64{}, tables: map[string]map[string]float64{}}
	for _, f := range families {
		name, ours := strings.CutPrefix(f.GetName(), "cdc_relay_")
		if !ours {
			continue
		}
		for _, m := range f.GetMetric() {
			n.add(name, m)
		}
	}
	return n
}

func (n *numbers) add(name string, m *dto.Metric) {
	if c := m.GetCounter(); c != nil {
		n.counters[strings.TrimSuffix(name, "_total")] += c.GetValue()
	}
	topic, byTopic := labelOf(m, "topic")
	table, byTable := labelOf(m, "table")
	switch c := n.topics[topic]; {
	case name == "produce_seconds":
		n.sent = bucketsOf(m.GetHistogram())
	case name == "commit_to_ack_seconds":
		n.acks = bucketsOf(m.GetHistogram())
	case name == "events_published_total":
		c.published += m.GetCounter().GetValue()
		n.topics[topic] = c
	case name == "page_commit_to_ack_seconds":
		c.acks = bucketsOf(m.GetHistogram())
		n.topics[topic] = c
	case name == "publish_errors_total":
		if reason, _ := labelOf(m, "reason"); slices.Contains(rejections(), reason) {
			c.rejected += m.GetCounter().GetValue()
		} else {
			c.retried += m.GetCounter().GetValue()
		}
		n.topics[topic] = c
	case byTable && m.GetGauge() != nil:
		if n.tables[name] == nil {
			n.tables[name] = map[string]float64{}
		}
		n.tables[name][table] = m.GetGauge().GetValue()
	case !byTopic && m.GetGauge() != nil && len(m.GetLabel()) == 0:
		n.all[name] = m.GetGauge().GetValue()
	}
}

// rejections are the reasons of Kafka's that a retry does not mend.
func rejections() []string {
	return []string{"message_too_large", "record_list_too_large", "invalid_timestamp", "invalid_record", "policy_violation", "corrupt_message"}
}

func labelOf(m *dto.Metric, name string) (value string, found bool) {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue(), true
		}
	}
	return "", false
}

// perSecond is how much a counter grew in each second between the two times; NaN if that is not known.
func perSecond(now, was float64, over time.Duration) float64 {
	if over <= 0 {
		return math.NaN()
	}
	return max(0, now-was) / over.Seconds()
}

// bucket has the number of observations from the bound before it up to its own.
type bucket struct {
	bound float64
	count uint64
}

// buckets are those of a histogram, in the order of their bounds. Empty ones may be absent.
type buckets []bucket

// bucketsOf reads a native histogram.
func bucketsOf(h *dto.Histogram) (list buckets) {
	index, delta, count := int32(0), 0, int64(0)
	bound := func(i int32) float64 { return math.Exp2(math.Ldexp(float64(i), int(-h.GetSchema()))) }
	list = append(list, bucket{h.GetZeroThreshold(), h.GetZeroCount()})
	for _, span := range h.GetPositiveSpan() {
		index += span.GetOffset()
		if span.GetLength() > 0 {
			list = append(list, bucket{bound(index - 1), 0}) // where the next one begins
		}
		for range span.GetLength() {
			count += h.GetPositiveDelta()[delta]
			list = append(list, bucket{bound(index), uint64(max(0, count))})
			index++
			delta++
		}
	}
	return list
}

// since are the observations that an earlier state of the histogram does not have. Its buckets may be narrower: a histogram that gets too
// many merges them.
func (b buckets) since(was buckets) buckets {
	diff, i := slices.Clone(b), 0
	for _, w := range was {
		for i < len(diff) && diff[i].bound < w.bound {
			i++
		}
		if i < len(diff) {
			diff[i].count -= min(diff[i].count, w.count)
		}
	}
	return diff
}

// quantile is interpolated within its bucket; NaN if there are no observations.
func (b buckets) quantile(q float64) float64 {
	total := uint64(0)
	for _, x := range b {
		total += x.count
	}
	rank, below, lower := q*float64(total), 0.0, 0.0
	for _, x := range b {
		if n := float64(x.count); n > 0 && below+n >= rank {
			return lower + (x.bound-lower)*(rank-below)/n
		}
		below, lower = below+float64(x.count), x.bound
	}
	return math.NaN()
}
