package publisher

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// latency is a topic's histogram of the time from commit to acknowledgement. Some observations carry the trace ID of
// their event, an exemplar.
type latency struct {
	prometheus.Observer

	// bounds are the upper bounds of the classic buckets, and due is when each may have a new exemplar: so a slow event
	// has one although most are fast, and looking for a header costs nothing for each batch.
	bounds []float64
	due    []time.Time
}

const exemplarInterval = time.Second

func newLatency(o prometheus.Observer) latency {
	bounds := buckets()
	return latency{o, bounds, make([]time.Time, len(bounds)+1)}
}

// observe records the latency of a batch whose oldest event is m.
func (l *latency) observe(took time.Duration, m *cdc.Message, now time.Time) {
	v := max(0, took.Seconds())
	i, _ := slices.BinarySearch(l.bounds, v)
	if now.Before(l.due[i]) {
		l.Observe(v)
		return
	}
	l.due[i] = now.Add(exemplarInterval)
	exemplars, ok := l.Observer.(prometheus.ExemplarObserver)
	if id := sampledTrace(m); ok && id != "" {
		exemplars.ObserveWithExemplar(v, prometheus.Labels{"trace_id": id})
		return
	}
	l.Observe(v)
}

// sampledTrace returns the trace ID of the event's header traceparent (https://www.w3.org/TR/trace-context/), or "" if it
// has none that was sampled: a trace that is not stored cannot be looked at.
func sampledTrace(m *cdc.Message) string {
	const sampled = 1
	parts := strings.Split(string(header(m, "traceparent")), "-")
	if len(parts) < 4 || len(parts[1]) != 32 || len(parts[3]) != 2 || strings.Trim(parts[1], "0123456789abcdef") != "" {
		return ""
	}
	if strings.Trim(parts[1], "0") == "" || strings.IndexByte("0123456789abcdef", parts[3][1])&sampled == 0 {
		return ""
	}
	return parts[1]
}
