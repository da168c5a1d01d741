package admin

import (
	"maps"
	"math"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// recentFor is how far the page's rates and percentiles go back at least: to the last sample of the history that is as old. So a rate
// is 0 soon after nothing is published any more.
const recentFor = 5 * time.Second

// topics is the answer about all topics. Rates and percentiles are over the last Seconds.
type topics struct {
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
	Topics    []topic `json:"topics"`
}

// topic is one that was published to, or could not be. Published and Errors are since the start.
type topic struct {
	Name      string  `json:"name"`
	Published float64 `json:"published"`
	PerSecond float64 `json:"per_second"`
	// P99 of the seconds from the commit to Kafka's acknowledgement, as the upper bound of its bucket; absent if nothing was
	// acknowledged, or that above the last bucket.
	P99    *float64 `json:"p99,omitempty"`
	Errors float64  `json:"errors"`
}

// counts are a topic's counters at a time.
type counts struct {
	published, errors float64
	acks              []bucket
}

// bucket has the number of observations up to a bound. The last bucket has no bound.
type bucket struct {
	bound float64
	count uint64
}

// moment is the topics' counters at a time.
type moment struct {
	at     time.Time
	topics map[string]counts
}

func momentOf(families []*dto.MetricFamily, at time.Time) moment {
	m := moment{at, map[string]counts{}}
	for _, f := range families {
		for _, sample := range f.GetMetric() {
			labels := sample.GetLabel()
			i := slices.IndexFunc(labels, func(l *dto.LabelPair) bool { return l.GetName() == "topic" })
			if i < 0 {
				continue
			}
			name := labels[i].GetValue()
			c := m.topics[name]
			switch f.GetName() {
			case "cdc_relay_events_published_total":
				c.published += sample.GetCounter().GetValue()
			case "cdc_relay_publish_errors_total":
				c.errors += sample.GetCounter().GetValue()
			case "cdc_relay_commit_to_ack_seconds":
				c.acks = bucketsOf(sample.GetHistogram())
			default:
				continue
			}
			m.topics[name] = c
		}
	}
	return m
}

func bucketsOf(h *dto.Histogram) []bucket {
	var list []bucket
	for _, b := range h.GetBucket() {
		if !math.IsInf(b.GetUpperBound(), 0) { // it is there if it has an exemplar
			list = append(list, bucket{b.GetUpperBound(), b.GetCumulativeCount()})
		}
	}
	return append(list, bucket{math.Inf(1), h.GetSampleCount()})
}

// since compares the counters with earlier ones.
func (m moment) since(before moment) topics {
	all := topics{Seconds: m.at.Sub(before.at).Seconds(), Topics: []topic{}}
	over := max(all.Seconds, 1)
	for _, name := range slices.Sorted(maps.Keys(m.topics)) {
		now, was := m.topics[name], before.topics[name]
		if now.published == 0 && now.errors == 0 {
			continue
		}
		rate := (now.published - was.published) / over
		all.PerSecond += rate
		all.Topics = append(all.Topics, topic{name, now.published, rate, p99(now.acks, was.acks), now.errors})
	}
	return all
}

// p99 is of the observations between two states of a histogram.
func p99(now, was []bucket) *float64 {
	if len(was) != len(now) {
		was = make([]bucket, len(now))
	}
	if len(now) == 0 || now[len(now)-1].count == was[len(was)-1].count {
		return nil
	}
	rank := uint64(math.Ceil(0.99 * float64(now[len(now)-1].count-was[len(was)-1].count)))
	for i, b := range now[:len(now)-1] {
		if b.count-was[i].count >= rank {
			return &b.bound
		}
	}
	return nil
}

// before is the newest of the recent moments that is old enough, or the oldest, or now if there is none.
func (h *history) before(now moment) moment {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range slices.Backward(h.recent) {
		if now.at.Sub(m.at) >= recentFor {
			return m
		}
	}
	if len(h.recent) == 0 {
		return now
	}
	return h.recent[0]
}
