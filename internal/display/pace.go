package display

import (
	"fmt"
	"time"
)

const (
	// patience is how long work may take before somebody wants to know how far it is.
	patience = 2 * time.Second
	// toldEvery is how often that is told from then on.
	toldEvery = 5 * time.Second
)

// Pace tells now and then how far a long piece of work is.
type Pace struct {
	total, before int64
	start, next   time.Time
}

// NewPace begins work on total things, of which some were done before.
func NewPace(total, before int64) *Pace {
	now := time.Now()
	return &Pace{total: total, before: before, start: now, next: now.Add(patience)}
}

// Tell returns, if it is time for that, how far the work is with so many things done: "300 of 1000 (30 %), 12s left".
func (p *Pace) Tell(done int64) (text string, due bool) {
	now := time.Now()
	if now.Before(p.next) || p.total == 0 {
		return "", false
	}
	p.next = now.Add(toldEvery)
	if done > p.total { // there are more by now
		return fmt.Sprintf("%d so far", done), true
	}
	text = fmt.Sprintf("%d of %d (%d %%)", done, p.total, 100*done/p.total)
	if rate := float64(done-p.before) / now.Sub(p.start).Seconds(); rate > 0 {
		text += ", " + time.Duration(float64(p.total-done)/rate*float64(time.Second)).Round(time.Second).String() + " left"
	}
	return text, true
}
