package cdc

import (
	"testing"
	"time"
)

// Clocks that are apart are told, and a slow answer is not taken for that.
func TestClock(t *testing.T) {
	now := time.Now()
	for name, tt := range map[string]struct {
		asked, showed time.Time
		warns         bool
	}{
		"same":                         {now, now, false},
		"answer after a minute":        {now.Add(-time.Minute), now.Add(-30 * time.Second), false},
		"ahead":                        {now, now.Add(time.Hour), true},
		"behind":                       {now, now.Add(-time.Hour), true},
		"behind, answer after seconds": {now.Add(-4 * time.Second), now.Add(-time.Minute), true},
	} {
		var r Report
		if r.Clock(tt.asked, tt.showed); len(r.Findings) > 0 != tt.warns {
			t.Errorf("%s: %v", name, r.Findings)
		}
	}
}
