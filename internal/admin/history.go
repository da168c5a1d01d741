package admin

import (
	"context"
	"net/http"
	"sync"
	"time"
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
	metrics *gathered

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
	s := sample{
		At: now.Unix(), Lag: st.Lag.Seconds, Published: counters(h.metrics)["events_published"],
		Leading: st.State == "leading",
	}
	m := h.metrics.moment()
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

func (h *history) serve(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{"every_seconds": sampleEvery.Seconds(), "samples": h.list()})
}
