package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// All processors are used as soon as one is busy, or the machine is, and one again after a calm time.
func TestProcessors(t *testing.T) {
	now, used := time.Now(), time.Duration(0)
	p := processors{one: true, at: now}
	after := func(elapsed, cpu time.Duration) bool {
		now, used = now.Add(elapsed), used+cpu
		return p.next(now, used)
	}
	calm := func() (intervals int) {
		for {
			if intervals++; after(loadInterval, loadInterval/5) {
				return intervals
			}
		}
	}
	for name, c := range map[string]struct {
		elapsed, cpu time.Duration
		one          bool
	}{
		"idle":                      {loadInterval, 0, true},
		"half of it":                {loadInterval, loadInterval / 2, true},
		"busy":                      {loadInterval, loadInterval * 7 / 10, false},
		"more than one":             {loadInterval, loadInterval * 2, false},
		"the machine has no time":   {loadInterval * 2, 0, false},
		"a little late, and little": {loadInterval * 14 / 10, loadInterval / 2, true},
	} {
		assert.Equal(t, c.one, after(c.elapsed, c.cpu), name)
		if !c.one {
			assert.Equal(t, calmIntervals, calm(), name)
		}
	}
	after(loadInterval, loadInterval)
	for range calmIntervals - 1 {
		assert.False(t, after(loadInterval, 0))
	}
	assert.False(t, after(loadInterval, loadInterval/2), "not calm")
	assert.Equal(t, calmIntervals, calm())
}
