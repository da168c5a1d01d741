package admin

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

// The oldest rows go; a minute of six hours has the worst of its rows and the mean of their rates; what is not known is null.
func TestHistory(t *testing.T) {
	var h history
	at := time.Unix(1_000_000, 0)
	for i := range sampleCount + 12 {
		r := unknownRow()
		r[columnRate], r[columnLag], r[columnState] = sample(i%6), sample(i), 0
		if i%6 == 2 {
			r[columnState] = 2
		}
		h.add(at.Add(time.Duration(i)*sampleEvery), r)
	}
	s := h.of(360)
	last := s.Samples[len(s.Samples)-1]
	if s.Seconds != 60 || len(s.Samples) != shownCount || last[columnRate] != 2.5 || last[columnLag] != sample(sampleCount+11) || last[columnState] != 2 {
		t.Errorf("%d rows of %d s, the last is %v", len(s.Samples), s.Seconds, last)
	}
	if !s.From.Equal(h.last.Add(-6 * time.Hour)) {
		t.Errorf("from %s, the last row is of %s", s.From, h.last)
	}
	text, err := json.Marshal(h.of(1))
	if err != nil || !strings.Contains(string(text), `[5,2171,null,null,null,null,null,0]]`) {
		t.Errorf("%s, %v", text, err)
	}
}

// A process that was stopped for a while knows nothing of that time.
func TestHistoryHasGaps(t *testing.T) {
	var h history
	at := time.Unix(1_000_000, 0)
	h.add(at, row{1})
	h.add(at.Add(4*sampleEvery), row{2})
	s := h.of(15)
	if len(s.Samples) != 5 || s.Samples[0][0] != 1 || !math.IsNaN(float64(s.Samples[2][0])) || s.Samples[4][0] != 2 {
		t.Errorf("%v", s.Samples)
	}
	h.add(at.Add(1000*time.Hour), row{3})
	if s = h.of(360); !math.IsNaN(float64(s.Samples[0][0])) {
		t.Errorf("%v", s.Samples[0])
	}
}
