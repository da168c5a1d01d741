package admin

import (
	"math"
	"strconv"
	"time"
)

// The history is six hours, a row every few seconds: 70 kB.
const (
	sampleEvery = 10 * time.Second
	sampleCount = int(6 * time.Hour / sampleEvery)
	// shownCount is how many rows one answer has at most.
	shownCount = 360
)

// The columns of a row. What is not known is NaN.
const (
	columnRate = iota
	columnLag
	columnP50
	columnP99
	columnWaiting
	columnKept
	columnLetters
	columnState // the index in [states]
	columns
)

func states() []string {
	return []string{Publishing, PublishingBut, NotPublishing, StandingBy, Starting, Stopping, Parked}
}

type row [columns]sample

type sample float32

// MarshalJSON writes what is not known as null.
func (s sample) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(s)) || math.IsInf(float64(s), 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(s), 'f', -1, 32), nil
}

// history has the last rows, without gaps.
type history struct {
	rows  [sampleCount]row
	taken int
	last  time.Time // of the last row
}

// add adds a row. A process that did not run for a while knows nothing of that time.
func (h *history) add(now time.Time, r row) {
	missed := 0
	if h.taken > 0 {
		missed = min(sampleCount, int(now.Sub(h.last)/sampleEvery)-1)
	}
	for ; missed > 0; missed-- {
		h.put(unknownRow())
	}
	h.put(r)
	h.last = now
}

func (h *history) put(r row) {
	h.rows[h.taken%sampleCount] = r
	h.taken++
}

func unknownRow() (r row) {
	for i := range r {
		r[i] = sample(math.NaN())
	}
	return r
}

// shown is what an answer has of the history: each row is of Seconds.
type shown struct {
	Seconds int       `json:"seconds"`
	From    time.Time `json:"from"`
	Samples []row     `json:"samples"`
}

// of returns the last minutes, of which each row has the worst of several, and the mean of the rate.
func (h *history) of(minutes int) shown {
	n := min(h.taken, sampleCount, minutes*int(time.Minute/sampleEvery))
	each := max(1, (minutes*int(time.Minute/sampleEvery)+shownCount-1)/shownCount)
	n -= n % each
	s := shown{Seconds: each * int(sampleEvery/time.Second), From: h.last.Add(-time.Duration(n) * sampleEvery).UTC(), Samples: make([]row, 0, n/each)}
	for i := h.taken - n; i < h.taken; i += each {
		r, rates := unknownRow(), 0
		for j := i; j < i+each; j++ {
			rates += r.merge(&h.rows[j%sampleCount])
		}
		r[columnRate] /= sample(rates) // NaN without one
		s.Samples = append(s.Samples, r)
	}
	return s
}

// merge takes the sum of the rates, and the worst of the rest.
func (r *row) merge(other *row) (rates int) {
	for c, v := range other {
		switch known := !math.IsNaN(float64(r[c])); {
		case math.IsNaN(float64(v)):
		case c == columnRate && known:
			r[c] += v
		case c == columnState && known:
			if int(r[c]) != 2 { // not publishing
				r[c] = v
			}
		case known:
			r[c] = max(r[c], v)
		default:
			r[c] = v
		}
	}
	if !math.IsNaN(float64(other[columnRate])) {
		rates = 1
	}
	return rates
}
