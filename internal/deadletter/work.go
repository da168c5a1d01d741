package deadletter

import (
	"slices"
	"time"
)

// Work is a letter that can be resolved.
type Work struct {
	ID string
	// Partition of the topic of letters.
	Partition int32
	Order     Order
	// Place is that of its row.
	Place string
	// Hold is what it holds; "" for nothing.
	Hold string
	// Blocked says that something is wrong with it.
	Blocked  bool
	Attempts int
	// Time is when it became a letter.
	Time time.Time
}

// Retryable returns the letters that can be published now, those of a key in their order: of each key the first ones, up to one
// that is blocked and not wanted. whole are the names of keys all of whose letters are among them, none of which is blocked.
func (x *Index) Retryable(wanted func(id string, tried time.Time, attempts int) bool) (work []Work, whole []string) {
	if x.size.Load() == 0 {
		return nil, nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	ready := func(l *letter) bool {
		return l.state == stored && (!l.blocked || wanted(l.id, time.Unix(l.tried, 0), l.attempts))
	}
	for _, k := range x.held {
		n := slices.IndexFunc(k.letters, func(l *letter) bool { return !ready(l) })
		if n < 0 {
			n = len(k.letters)
			if !slices.ContainsFunc(k.letters, func(l *letter) bool { return l.blocked }) {
				whole = append(whole, k.name)
			}
		}
		for _, l := range k.letters[:n] {
			work = append(work, l.work())
		}
	}
	if x.keyless > 0 {
		for _, l := range x.letters {
			if l.key == nil && ready(l) {
				work = append(work, l.work())
			}
		}
	}
	return work, whole
}

// Letter returns a letter that is stored, and false if there is none of that ID. stored is false for one whose row has yet to
// come.
func (x *Index) Letter(id string) (w Work, settled, found bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.letters[id]
	if l == nil {
		return Work{}, false, false
	}
	return l.work(), l.state == stored, true
}

func (l *letter) work() Work {
	w := Work{
		ID: l.id, Partition: l.part, Order: l.order, Place: l.place, Blocked: l.blocked, Attempts: l.attempts, Time: time.Unix(l.time, 0),
	}
	if l.key != nil {
		w.Hold = l.key.name
	}
	return w
}

// Head returns the first letter of another one's key, and false if that is none or the first itself. settled is false for one whose row
// has yet to come.
func (x *Index) Head(id string) (w Work, settled, found bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.letters[id]
	if l == nil || l.key == nil || l.key.letters[0] == l {
		return Work{}, false, false
	}
	head := l.key.letters[0]
	return head.work(), head.state == stored, true
}

// Summary is the state of the letters, for metrics and status.
type Summary struct {
	// Letters that are not resolved, and those among them that wait behind another one of their key.
	Letters, Held int
	// Keys that have letters.
	Keys int
	// Oldest is when the oldest became one; zero: there are none.
	Oldest time.Time
	// Full says that the relay accepts no events, because there may be no more letters.
	Full bool
}

// Summary returns the state. It takes time in proportion to the letters.
func (x *Index) Summary() Summary {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := Summary{Letters: len(x.letters), Held: len(x.letters) - x.blocked, Keys: len(x.held)}
	s.Full = s.Letters > 0 && (s.Letters >= x.opts.MaxLetters || s.Keys >= x.opts.MaxKeys)
	for _, l := range x.letters {
		if t := time.Unix(l.time, 0); s.Oldest.IsZero() || t.Before(s.Oldest) {
			s.Oldest = t
		}
	}
	return s
}
