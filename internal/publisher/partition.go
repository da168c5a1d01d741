package publisher

import (
	"time"

	"github.com/cenkalti/backoff/v5"
)

// state is a partition's; see the package documentation.
type state uint8

const (
	idle    state = iota // nothing to send, or no leader known
	ready                // in the list of its leader's link
	flying               // its batch is with a sender
	waiting              // its batch is sent again when retryAt has come
	halted               // nothing leaves any more
)

// partition sends the messages of one partition in order: one batch at a time.
type partition struct {
	topic *topic
	id    int32
	link  *link // to the leader; nil: unknown
	state state
	gone  bool // its topic was found missing and is forgotten
	// listed is the link whose list holds the partition while it is ready; entries of other lists are stale.
	listed *link

	// queue holds what is not acknowledged; the batch covers its first entries.
	queue fifo[entry]
	batch *batch
	// as is the identity that sends, and seq the sequence number of the first entry under it: it moves when a
	// batch is acknowledged.
	as  producer
	seq int32

	// failing is when attempts began to fail, whatever the answers; zero: they do not.
	failing time.Time
	trouble trouble
	backoff *backoff.ExponentialBackOff
	retryAt time.Time

	// After a batch was refused as a whole, the next suspects records go out in batches of at most chunk.
	suspects, chunk int
	// blame is why the entry marked as poison was refused.
	blame refusal
}

// recovered forgets about past trouble.
func (p *partition) recovered() {
	p.failing, p.trouble, p.backoff = time.Time{}, trouble{}, nil
}

// suspect remembers that one of the first n entries makes brokers refuse the batch: halves of it find
// out which one. Nothing was appended, so their sequence numbers are still free.
func (p *partition) suspect(n int) {
	p.suspects, p.chunk = max(p.suspects, n), (n+1)/2
}

// cleared says that the first n entries were none of those.
func (p *partition) cleared(n int) {
	p.suspects = max(0, p.suspects-n)
	p.chunk *= 2
}

// limit is how many records the next batch may have.
func (p *partition) limit() int {
	if p.suspects > 0 {
		return min(p.chunk, maxBatchRecords)
	}
	return maxBatchRecords
}
