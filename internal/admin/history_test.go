package admin

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestHistoryKeepsTheLastHour(t *testing.T) {
	h := &history{o: Options{Gatherer: prometheus.NewRegistry(), Status: func() Status { return Status{State: "leading"} }}}
	for i := range sampleCount + 7 {
		h.take(time.Unix(int64(i), 0))
	}
	got := h.list()
	if len(got) != sampleCount || got[0].At != 7 || got[sampleCount-1].At != sampleCount+6 {
		t.Errorf("%d samples from %d to %d", len(got), got[0].At, got[len(got)-1].At)
	}
}
