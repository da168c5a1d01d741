package admin

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The history is one hour, a sample every few seconds.
const (
	sampleEvery = 10 * time.Second
	sampleCount = 360
)

// sample is the state at a time.
type sample struct {
	At        int64   `json:"at"` // Unix seconds
	Lag       float64 `json:"lag"`
	Published float64 `json:"published"` // since the start
	Leading   bool    `json:"leading"`
}

// history keeps the last samples.
type history struct {
	status  func() Status
	metrics prometheus.Gatherer

	mu      sync.Mutex
	samples [sampleCount]sample
	taken   int
	recent  []moment // the last two, the older first
}

// run takes samples until ctx ends.
func (h *history) run(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		h.take(time.Now())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (h *history) take(now time.Time) {
	st := h.status()
	list, _ := h.metrics.Gather() // metrics of a failing collector are missing
	s := sample{
		At: now.Unix(), Lag: st.Lag.Seconds, Published: counters(list)["events_published"],
		Leading: st.State == "leading",
	}
	m := momentOf(list, now)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.samples[h.taken%sampleCount] = s
	h.taken++
	h.recent = append(h.recent, m)
	h.recent = h.recent[max(0, len(h.recent)-2):]
}

// list returns the samples, the oldest first.
func (h *history) list() []sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.taken <= sampleCount {
		return append([]sample{}, h.samples[:h.taken]...)
	}
	first := h.taken % sampleCount
	return append(append([]sample{}, h.samples[first:]...), h.samples[:first]...)
}
