package admin

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestHistoryKeepsTheLastHour(t *testing.T) {
	h := &history{status: func() Status { return Status{State: "leading"} }, metrics: prometheus.NewRegistry()}
	for i := range sampleCount + 7 {
		h.take(time.Unix(int64(i), 0))
	}
	got := h.list()
	if len(got) != sampleCount || got[0].At != 7 || got[sampleCount-1].At != sampleCount+6 {
		t.Errorf("%d samples from %d to %d", len(got), got[0].At, got[len(got)-1].At)
	}
}

// Rates and percentiles are those of the last samples: what was slow or failed before does not count.
func TestTopicsAreOfTheLastSamples(t *testing.T) {
	reg := prometheus.NewRegistry()
	published := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cdc_relay_events_published_total", Help: "h"}, []string{"topic"})
	acks := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "cdc_relay_page_commit_to_ack_seconds", Help: "h", NativeHistogramBucketFactor: 1.1}, []string{"topic"})
	all := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "cdc_relay_commit_to_ack_seconds", Help: "h", NativeHistogramBucketFactor: 1.1})
	failed := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cdc_relay_publish_errors_total", Help: "h"}, []string{"topic", "reason"})
	reg.MustRegister(published, acks, all, failed)
	at := time.Unix(1000, 0)
	take := func(events, each float64) moment {
		at = at.Add(10 * time.Second)
		published.WithLabelValues("orders").Add(events)
		for range int(events) {
			acks.WithLabelValues("orders").Observe(each)
			all.Observe(2 * each)
		}
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		return momentOf(families, at)
	}
	first := take(1000, 5)
	failed.WithLabelValues("orders", "a").Inc()
	failed.WithLabelValues("orders", "b").Add(2)
	failed.WithLabelValues("refused", "a").Inc()
	second := take(300, .05)
	third := take(0, 0)
	for _, tt := range []struct {
		name        string
		now, before moment
		want        string
	}{
		{"the first", first, first, `{"seconds":0,"per_second":0,"topics":[{"name":"orders","published":1000,"per_second":0,"errors":0}]}`},
		{"a fast time after a slow one", second, first, `{"seconds":10,"per_second":30,"p50":0.10065564574682839,"p99":0.10502101869651485,"topics":[{"name":"orders","published":1300,"per_second":30,"p99":0.05251050934825744,"errors":3},{"name":"refused","published":0,"per_second":0,"errors":1}]}`},
		{"none", third, second, `{"seconds":10,"per_second":0,"topics":[{"name":"orders","published":1300,"per_second":0,"errors":3},{"name":"refused","published":0,"per_second":0,"errors":1}]}`},
	} {
		got, err := json.Marshal(tt.now.since(tt.before))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %s, %v", tt.name, got, err)
		}
	}
}

// The rate is 0 soon after nothing is published any more.
func TestRatesAreRecent(t *testing.T) {
	at := func(seconds int) moment { return moment{at: time.Unix(int64(seconds), 0)} }
	h := &history{recent: []moment{at(10), at(20)}}
	for now, want := range map[int]int{21: 10, 24: 10, 25: 20, 29: 20} {
		if got := h.before(at(now)); !got.at.Equal(at(want).at) {
			t.Errorf("%d is compared with %s", now, got.at)
		}
	}
}
