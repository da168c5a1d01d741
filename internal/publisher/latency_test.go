package publisher_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

const trace = "4bf92f3577b34da6a3ce929d0e0e4736"

// The latency of an event with a sampled trace carries the trace's ID; a malformed header or a trace that nobody stores does not.
func TestExemplarsHaveSampledTraces(t *testing.T) {
	for name, c := range map[string]struct{ traceparent, want string }{
		"sampled":       {"00-" + trace + "-00f067aa0ba902b7-01", trace},
		"and random":    {"00-" + trace + "-00f067aa0ba902b7-03", trace},
		"later version": {"cc-" + trace + "-00f067aa0ba902b7-01-more", trace},
		"not sampled":   {"00-" + trace + "-00f067aa0ba902b7-00", ""},
		"no trace":      {"00-00000000000000000000000000000000-00f067aa0ba902b7-01", ""},
		"upper case":    {"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", ""},
		"too short":     {"00-4bf9-00f067aa0ba902b7-01", ""},
		"text":          {"hello", ""},
		"not UTF-8":     {"00-\xff\xff\xff\xff92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", ""},
		"none":          {"", ""},
	} {
		m := msg("k", "1")
		if c.traceparent != "" {
			m.Headers = append(m.Headers, cdc.Header{Key: []byte("traceparent"), Value: []byte(c.traceparent)})
		}
		if got := publisher.SampledTrace(&m); got != c.want {
			t.Errorf("%s: exemplar %q, want %q", name, got, c.want)
		}
	}
}

// Within a second a bucket gets one exemplar, however many batches there are.
func TestExemplarsAreRare(t *testing.T) {
	t.Parallel()
	opts, now := options(newCluster(t, 1, 1)), time.Now()
	opts.Timing.Now = func() time.Time { return now }
	s := open(t, opts)
	for n := range uint64(20) {
		m := msg("k", "1")
		m.Headers = append(m.Headers, cdc.Header{Key: []byte("traceparent"), Value: []byte("00-" + trace + "-00f067aa0ba902b7-01")})
		s.send(t, m)
		s.answered(t, n+1)
	}
	h := ackLatency(t, s.reg)
	if all := h.GetExemplars(); h.GetSampleCount() != 20 || len(all) != 1 || all[0].GetLabel()[0].GetValue() != trace {
		t.Errorf("%d observations have exemplars %v", h.GetSampleCount(), all)
	}
}

func ackLatency(t *testing.T, reg *prometheus.Registry) *dto.Histogram {
	t.Helper()
	families, err := reg.Gather()
	testenv.Must(t, err)
	for _, f := range families {
		if f.GetName() == "cdc_relay_commit_to_ack_seconds" {
			return f.GetMetric()[0].GetHistogram()
		}
	}
	t.Fatal("there is no histogram")
	return nil
}
