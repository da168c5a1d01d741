package publisher_test

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// seriesOf returns the values of a metric by topic.
func seriesOf(t *testing.T, reg *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	testenv.Must(t, err)
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == name && l.GetName() == "topic" {
					all[l.GetValue()] += m.GetCounter().GetValue()
				}
			}
		}
	}
	return all
}

// Rows that name topics that do not exist leave neither series nor state behind.
func TestUnknownTopicsAreForgotten(t *testing.T) {
	const names = 40_000
	c := newCluster(t, 1, 1)
	var later, refreshing, refreshed atomic.Int64
	c.ControlKey(kmsg.Metadata.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		later.Add(int64(time.Second)) // the time until another broker is asked passes
		if md, _ := req.(*kmsg.MetadataRequest); refreshing.Load() > 0 {
			refreshed.Store(max(refreshed.Load(), int64(len(md.Topics))))
		}
		return nil, nil, false
	})
	opts := options(c)
	opts.UnknownTopic, opts.Timing.Patience, opts.Timing.MetadataInterval = cdc.PolicyDrop, 20*time.Millisecond, time.Hour
	opts.Timing.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	s := open(t, opts)
	s.send(t, msg("k", "a"))
	s.answered(t, 1)
	before := cdctest.Heap()
	batch := uint64(1)
	for i := 0; i < names; batch++ {
		var messages []cdc.Message
		for range 250 {
			messages = append(messages, to("nowhere-"+strconv.Itoa(i), msg("k", "b"))...)
			i++
		}
		s.send(t, messages...)
	}
	s.answered(t, batch)
	t.Logf("heap: %d KiB more", (cdctest.Heap()-before)>>10)
	if got := seriesOf(t, s.reg, "cdc_relay_publish_errors_total"); len(got) != 1 || got["other"] != names {
		t.Errorf("%d topics have series of errors, and %v errors are of others: want 1 and %d", len(got), got["other"], names)
	}
	if got := seriesOf(t, s.reg, "cdc_relay_events_published_total"); len(got) != 1 || got["t"] != 1 {
		t.Errorf("topics with series: %v", got)
	}
	refreshing.Store(1)
	for range 2 {
		later.Add(int64(2 * time.Hour))
		batch++
		s.send(t, msg("k", "c"))
		s.answered(t, batch)
	}
	eventually(t, "metadata", func() bool { return refreshed.Load() > 0 })
	if n := refreshed.Load(); n > 1001 {
		t.Errorf("metadata of %d topics is requested, want 1 and at most 1000 that are missing", n)
	}
}

// Topics beyond the limit share their series.
func TestSeriesOfManyTopics(t *testing.T) {
	const topics = 1100
	names := make([]string, topics)
	for i := range names {
		names[i] = "t" + strconv.Itoa(i)
	}
	s := open(t, options(newCluster(t, 1, 1, kfake.SeedTopics(1, names...))))
	for range 2 {
		var messages []cdc.Message
		for _, name := range names {
			messages = append(messages, to(name, msg("k", "a"))...)
		}
		s.answered(t, s.send(t, messages...))
	}
	got := seriesOf(t, s.reg, "cdc_relay_events_published_total")
	if len(got) != 1001 || got["other"] != 2*(topics-1000) {
		t.Errorf("%d topics have series, and %v events are of others: want 1001 and %d", len(got), got["other"], 2*(topics-1000))
	}
	for _, name := range []string{"cdc_relay_commit_to_ack_seconds", "cdc_relay_produce_seconds"} {
		if got := seriesOf(t, s.reg, name); len(got) > 0 {
			t.Errorf("%s has the label topic", name)
		}
	}
}
