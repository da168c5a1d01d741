package publisher

import (
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// ticket follows one Routed from Send to its answer.
type ticket struct {
	seq uint64
	// left counts the messages that are not settled, and one for the intake itself.
	left int
	// commit is when the batch's first transaction was committed, in Unix microseconds; 0: unknown.
	commit int64
	// topics lists the topics of its messages, each once as a rule.
	topics []*topic
}

// entry is a message that waits for a partition, or is in its batch.
type entry struct {
	m    *cdc.Message
	t    *ticket
	body int32 // bodySize
	// poison: a broker has refused this very record.
	poison bool
}

// window holds the tickets that are not answered, in the order of Send.
type window struct {
	open fifo[*ticket]
	idle []*ticket
	// answers are settled and wait for the relay to take them.
	answers fifo[cdc.Durable]
}

func (w *window) admit(r *cdc.Routed) *ticket {
	t := &ticket{}
	if n := len(w.idle); n > 0 {
		t, w.idle = w.idle[n-1], w.idle[:n-1]
	}
	t.seq, t.left, t.commit, t.topics = r.Seq(), len(r.Messages)+1, 0, t.topics[:0]
	if len(r.Batch.Txs) > 0 {
		t.commit = r.Batch.Txs[0].Time
	}
	w.open.push(t)
	return t
}

// settle marks n messages of t as settled and answers what is complete. Neighbours share an answer.
func (w *window) settle(t *ticket, n int, now time.Time) {
	t.left -= n
	if t.left > 0 {
		return
	}
	t.observe(now)
	w.answer(t.seq)
	for w.open.len() > 0 && (*w.open.at(0)).left == 0 {
		w.idle = append(w.idle, w.open.pop())
	}
}

func (w *window) answer(seq uint64) {
	if n := w.answers.len(); n > 0 {
		if last := w.answers.at(n - 1); last.Err == nil && last.Last+1 == seq {
			last.Last = seq
			return
		}
	}
	w.answers.push(cdc.Durable{First: seq, Last: seq})
}

// oldest returns the sequence number before which everything is settled.
func (w *window) oldest() (seq uint64, found bool) {
	if w.open.len() == 0 {
		return 0, false
	}
	return (*w.open.at(0)).seq, true
}

func (t *ticket) observe(now time.Time) {
	if t.commit == 0 {
		return
	}
	took := max(0, now.Sub(time.UnixMicro(t.commit)).Seconds())
	for _, tp := range t.topics {
		if tp.metrics.ack != nil {
			tp.metrics.ack.Observe(took)
		}
	}
}

func (t *ticket) note(tp *topic) {
	if tp.noted != t.seq {
		tp.noted = t.seq
		t.topics = append(t.topics, tp)
	}
}

// weight is what the entry counts for in batches and buffers.
func (e *entry) weight() int { return e.size() + recordGrowth }

// size is that of the record as the first of its batch.
func (e *entry) size() int { return varintSize(int(e.body)) + int(e.body) }
