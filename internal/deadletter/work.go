package deadletter

import (
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Work is a letter that can be resolved.
type Work struct {
	ID string
	// Partition of the topic of letters.
	Partition int32
	Order     Order
	// Hold is what it holds; "" for nothing.
	Hold string
	// Blocked says that something is wrong with it.
	Blocked  bool
	Attempts int
	// Tried is when it was tried last, or became a letter.
	Tried time.Time
	// Offset is that of its record; 0: it is not known, since a barrier precedes every letter.
	Offset int64
}

// Wanted reports whether a letter that is stored is to be published now.
type Wanted func(w *Work) bool

// Retryable returns letters that can be published now, those of a key in their order: of each key the first ones, up to one
// that is not wanted. They are most at most, no key has more than half of them, and a quarter is for letters without a key. whole are the
// names of keys all of whose letters are among them, none of which is blocked.
func (x *Index) Retryable(most int, wanted Wanted) (work []Work, whole []string) {
	if x.size.Load() == 0 {
		return nil, nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	var keyless []*letter
	for _, l := range x.keyless { // in another order each time
		if len(keyless) == most {
			break
		}
		if l.ready(wanted) {
			keyless = append(keyless, l)
		}
	}
	room := most - min(len(keyless), most/4)
	for _, k := range x.held {
		if len(work) >= room {
			break
		}
		work, whole = k.retryable(work, whole, min(max(1, most/2), room-len(work)), wanted)
	}
	for _, l := range keyless[:min(len(keyless), most-len(work))] {
		work = append(work, l.Work)
	}
	return work, whole
}

// RetryableOf is Retryable for some keys, whatever number of letters they have.
func (x *Index) RetryableOf(names []string, wanted Wanted) (work []Work, whole []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, name := range names {
		if k := x.held[name]; k != nil {
			work, whole = k.retryable(work, whole, len(k.letters), wanted)
		}
	}
	return work, whole
}

// retryable appends what k has to work, and its name to whole.
func (k *key) retryable(work []Work, whole []string, most int, wanted Wanted) ([]Work, []string) {
	blocked := false
	for i, l := range k.letters {
		if i == most || !l.ready(wanted) {
			return work, whole
		}
		blocked = blocked || l.Blocked
		work = append(work, l.Work)
	}
	if !blocked {
		whole = append(whole, k.name)
	}
	return work, whole
}

func (l *letter) ready(wanted Wanted) bool {
	return l.state == stored && wanted(&l.Work)
}

// Unfound returns when the oldest letter of a partition became one whose record is not known to be anywhere.
func (x *Index) Unfound(partition int32) time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	oldest := time.Now().Unix()
	for _, l := range x.letters {
		if l.Partition == partition && l.Offset == 0 {
			oldest = min(oldest, l.time)
		}
	}
	return time.Unix(oldest, 0)
}

// letter returns a letter with its state, and false if there is none of that ID.
func (x *Index) letter(id string) (w Work, s state, found bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.letters[id]
	if l == nil {
		return Work{}, 0, false
	}
	return l.Work, l.state, true
}

// Head returns the first letter of another one's key, and false if that is none or the first itself. isStored is false for one whose row
// has yet to come.
func (x *Index) Head(id string) (w Work, isStored, found bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.letters[id]
	if l == nil || l.key == nil || l.key.letters[0] == l {
		return Work{}, false, false
	}
	head := l.key.letters[0]
	return head.Work, head.state == stored, true
}

// Summary returns the state. It takes time in proportion to the letters.
func (x *Index) Summary() *cdc.DeadLetters {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := &cdc.DeadLetters{Events: len(x.letters), Held: len(x.letters) - x.blocked, Keys: len(x.held)}
	s.Full = s.Events > 0 && x.full()
	for _, l := range x.letters {
		if t := time.Unix(l.time, 0); s.Oldest.IsZero() || t.Before(s.Oldest) {
			s.Oldest = t
		}
	}
	return s
}
