package admin

import (
	"maps"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// recentFor is how far the page's rates and percentiles go back at least: to the last sample of the history that is as old. So a rate
// is 0 soon after nothing is published any more.
const recentFor = 5 * time.Second

// topics is the answer about all topics. Rates and percentiles are over the last Seconds. P50 and P99 are of the seconds from the commit to
// Kafka's acknowledgement; absent if nothing was acknowledged.
type topics struct {
	Seconds   float64  `json:"seconds"`
	PerSecond float64  `json:"per_second"`
	P50       *float64 `json:"p50,omitempty"`
	P99       *float64 `json:"p99,omitempty"`
	Topics    []topic  `json:"topics"`
}

// topic is one that was published to, or could not be. Published and Errors are since the start.
type topic struct {
	Name      string   `json:"name"`
	Published float64  `json:"published"`
	PerSecond float64  `json:"per_second"`
	P99       *float64 `json:"p99,omitempty"`
	Errors    float64  `json:"errors"`
}

// counts are a topic's counters at a time.
type counts struct {
	published, errors float64
	acks              spread
}

// moment is the topics' counters at a time, and the latency of all topics.
type moment struct {
	at     time.Time
	acks   spread
	topics map[string]counts
}

func momentOf(families []*dto.MetricFamily, at time.Time) moment {
	m := moment{at: at, topics: map[string]counts{}}
	for _, f := range families {
		for _, sample := range f.GetMetric() {
			labels := sample.GetLabel()
			i := slices.IndexFunc(labels, func(l *dto.LabelPair) bool { return l.GetName() == "topic" })
			if i < 0 {
				if f.GetName() == "cdc_relay_commit_to_ack_seconds" {
					m.acks = spreadOf(sample.GetHistogram())
				}
				continue
			}
			name := labels[i].GetValue()
			c := m.topics[name]
			switch f.GetName() {
			case "cdc_relay_events_published_total":
				c.published += sample.GetCounter().GetValue()
			case "cdc_relay_publish_errors_total":
				c.errors += sample.GetCounter().GetValue()
			case pageOnly + "commit_to_ack_seconds":
				c.acks = spreadOf(sample.GetHistogram())
			default:
				continue
			}
			m.topics[name] = c
		}
	}
	return m
}

// since compares the counters with earlier ones.
func (m moment) since(before moment) topics {
	all := topics{Seconds: m.at.Sub(before.at).Seconds(), P50: m.acks.quantile(before.acks, 0.5), P99: m.acks.quantile(before.acks, 0.99), Topics: []topic{}}
	over := max(all.Seconds, 1)
	for _, name := range slices.Sorted(maps.Keys(m.topics)) {
		now, was := m.topics[name], before.topics[name]
		if now.published == 0 && now.errors == 0 {
			continue
		}
		rate := (now.published - was.published) / over
		all.PerSecond += rate
		all.Topics = append(all.Topics, topic{name, now.published, rate, now.acks.quantile(was.acks, 0.99), now.errors})
	}
	return all
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
