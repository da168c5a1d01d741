package publisher

import "time"

// busy is a coordinator that has not finished the transaction before: it answers CONCURRENT_TRANSACTIONS until it has written
// the commit into all partitions. The loop waits, not the job: partitions that get messages meanwhile are added with the others.
type busy struct {
	since time.Time // zero: it is not busy
	pause time.Duration
}

const (
	busyFirst, busyLast = time.Millisecond, 20 * time.Millisecond
	// busyLimit makes a failure of it.
	busyLimit = 5 * time.Second
)

// again returns when the job is to be repeated, and false if that has been done for too long.
func (b *busy) again(now time.Time) (time.Time, bool) {
	if b.since.IsZero() {
		*b = busy{since: now, pause: busyFirst}
	}
	at := now.Add(b.pause)
	b.pause = min(2*b.pause, busyLast)
	return at, now.Sub(b.since) < busyLimit
}
