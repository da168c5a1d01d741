package publisher

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// # Dead letters
//
// An event that cannot be published becomes a letter: its entry in the index is written first, then the letter, and only then does
// the event count as acknowledged. So a letter always has an entry, and no position passes an event that is in neither. From then
// on the key is held: its later events become letters too, until the last of them is resolved.
//
// An event that is queued already when its key becomes held is found when it is about to be sent ([deadLetters.overtaken]).

// LetterOptions say where dead letters go.
type LetterOptions struct {
	deadletter.Options

	// Topic holds the letters, in so many Partitions, and Index says which there are.
	Topic, Index string
	Partitions   int
	// Tables are the names of those that are configured.
	Tables []string
	// Due is told when a letter can be resolved.
	Due deadletter.Due
}

// entry returns a record of the index; without a value it removes the key's.
func (o *LetterOptions) entry(key, value []byte) cdc.Message {
	return cdc.Message{Topic: o.Index, Partition: 1, Key: key, Value: value}
}

// withoutLetters are those of a publisher whose events do not become letters. The router refuses rows only for dead letters: another one
// panics, because to go on would lose the row.
func withoutLetters() *deadLetters {
	return &deadLetters{opts: &LetterOptions{}, index: new(deadletter.Index), installed: true}
}

// deadLetters are those of a loop.
type deadLetters struct {
	loop      *loop
	opts      *LetterOptions
	index     *deadletter.Index // empty until it is installed
	installed bool
	// swept: events of batches up to this one may be behind a letter of their key that became one later.
	swept uint64
	// closing has the keys whose last letters are being resolved, until when that may take. Their new events wait in behindClosed.
	closing      map[string]time.Time
	behindClosed map[string][]queuedMessage

	name    []byte  // of the event that is accepted, what it holds
	open    int     // tasks that have begun and not ended
	waiting []*task // tasks that have not begun
	barrier *barrier
}

// hasRoom reports whether events may be accepted.
func (s *deadLetters) hasRoom() bool { return s.installed && !s.index.Full() }

// any reports whether there are letters: else no event that is accepted or sent has to be looked at.
func (s *deadLetters) any() bool { return s.index.Any() }

// working reports whether a task has begun and not ended.
func (s *deadLetters) working() bool { return s.open > 0 }

// divert makes a letter of an accepted event whose key is held, or of which an earlier run has made one, unless that was dropped. It reports
// whether the event is not to be published.
func (s *deadLetters) divert(pending *pendingBatch, m *cdc.Message) bool {
	b := pending.routed.Batch
	old, dropped := s.index.Met(func() string { return letterID(b, m.Row, m.ID) })
	if dropped {
		s.passOver(pending, m.ID, m.Key, m.Topic)
		return true
	}
	if old != nil {
		s.bury(pending, &letter{message: m, row: m.Row, earlier: old, reason: old.Reason, text: old.Error})
		return true
	}
	s.name = deadletter.AppendHoldName(s.name[:0], b.Table, m.Key)
	if !s.index.Holds(s.name) {
		return false
	}
	name := string(s.name)
	if _, closing := s.closing[name]; closing {
		s.behindClosed[name] = append(s.behindClosed[name], s.loop.newQueued(m, pending))
	} else {
		s.bury(pending, &letter{message: m, row: m.Row, reason: deadletter.Held})
	}
	return true
}

// refuse makes a letter of a row that made no record.
func (s *deadLetters) refuse(pending *pendingBatch, r *cdc.Refused) {
	old, dropped := s.index.Met(func() string { return letterID(pending.routed.Batch, r.Row, r.EventID) })
	if dropped {
		s.passOver(pending, r.EventID, r.Key, "")
		return
	}
	s.bury(pending, &letter{refused: r, row: r.Row, earlier: old, reason: r.Reason, text: deadletter.Shortened(r.Err)})
}

// passOver resolves a row that comes again and whose letter a command has dropped: a drop holds also where the position was not saved.
func (s *deadLetters) passOver(pending *pendingBatch, id, key []byte, topic string) {
	s.loop.log.Info("row of a dead letter that was dropped comes again, and is not published", cdc.Repeats(), cdc.EventAttr(string(id), key, topic))
	s.loop.resolve(pending, 1)
}

// overtaken reports whether e may not be sent, because a letter of its key comes before it.
func (s *deadLetters) overtaken(e *queuedMessage) bool {
	x, b := s.index, e.pending
	switch {
	case b.kind == republished:
		return x.Precedes(b.item.Hold, b.item.Order, true)
	case b.kind == ownWrite, b.seq > s.swept:
		return false
	}
	return x.Precedes(deadletter.HoldName(b.routed.Batch.Table, e.m.Key), x.Order(b.seq, e.m.Row), false)
}

// giveUp reports whether an event that cannot be published is or becomes a letter; else the policy drops it.
func (s *deadLetters) giveUp(e *queuedMessage, why rejection) bool {
	switch {
	case e.pending.kind == republished:
		s.failed(e.pending.item, why)
	case s.overtaken(e):
		s.bury(e.pending, &letter{message: e.m, row: e.m.Row, reason: deadletter.Held})
	case why.policy == cdc.PolicyDeadLetter:
		s.swept = s.loop.lastSeq.Load()
		s.bury(e.pending, &letter{message: e.m, row: e.m.Row, reason: why.reason, text: deadletter.Shortened(why.err)})
	default:
		return false
	}
	return true
}

// letter is an event that becomes one.
type letter struct {
	message *cdc.Message // nil: it has made none
	refused *cdc.Refused
	row     int32
	// earlier is the entry that an earlier run has written; nil: none.
	earlier      *deadletter.Entry
	reason, text string
}

// bury makes a letter of a row of a batch. The row is resolved when its entry and the letter are acknowledged.
func (s *deadLetters) bury(pending *pendingBatch, what *letter) {
	l, x, opts := s.loop, s.index, s.opts
	d := what.letter(pending.routed)
	id := deadletter.ID([]byte(d.ID), d.Place)
	order, taken := x.OrderOf(id, x.Order(pending.seq, what.row))
	if taken && cdc.OfTable(d.Place) {
		l.stopAt(pending.seq, nil, sameIDError(d))
		return
	}
	d.Order, d.Time = order, l.now.UTC()
	if what.earlier != nil {
		d.Time, d.Attempts = what.earlier.Time, what.earlier.Attempts
	}
	d.Partition = letterPartition(d.RecordKey, id, opts.Partitions)
	record := cdc.Message{Topic: opts.Topic, Partition: d.Partition + 1, Key: []byte(id)}
	record.Value, record.Headers = d.EncodeRecord()
	// Before the entry: with one the event would have to become a letter also when its key is free.
	// A limit that could not be read yet may be larger.
	tp, size := l.topic(opts.Topic), l.letterSize(&record)
	if size > hardLimit || size > tp.limit && !tp.limitStale {
		l.stopAt(pending.seq, nil, letterTooLargeError(d, opts, size, min(tp.limit, hardLimit)))
		return
	}
	entry := opts.entry(deadletter.EntryKey(id), d.Encode())
	x.Add(id, &d.Entry)
	var steps []step
	if what.earlier == nil {
		steps = append(steps, func(s *deadLetters, t *task) {
			s.note(d)
			s.next(t)
		})
	}
	if l.transactional {
		steps = append(steps, write(entry, record))
	} else {
		steps = append(steps, write(entry), write(record))
	}
	s.begin(&task{seq: pending.seq, steps: append(steps, func(s *deadLetters, t *task) {
		s.next(t)
		l.resolve(pending, 1)
		l.txn.whenCommitted(func() { // it can be read from now on
			x.Stored(id)
			opts.Due.Notify() // it may be due already
		}, false)
	})})
}

// letterSize is what a broker compares with the limit. Compressed, a record that does not compress takes more; a letter that compresses well
// is measured as if it did not.
func (l *loop) letterSize(m *cdc.Message) int {
	body := bodySize(m)
	size := varintSize(body) + body + batchOverhead
	if l.codec != 0 {
		size += size>>10 + 64
	}
	return size
}

// letterGrowth is how much larger a letter may be after a restart: its time and order have as many digits as they need.
const letterGrowth = 64

// letterTooLargeError stops before an event that can neither be published nor become a letter. With max_held_events: 1 a relay accepts
// nothing while there are letters of earlier batches, so they can be published first.
func letterTooLargeError(d *deadletter.Letter, opts *LetterOptions, size, limit int) error {
	why, fix := d.Reason+": "+d.Error, "remove the cause"
	if d.Reason == deadletter.Held && opts.MaxLetters > 1 {
		why = fmt.Sprintf("it waits for dead letters of its key %q", d.Key)
		fix = "remove the cause of these dead letters, restart the relay with dead_letter.max_held_events: 1 and publish them with `cdc-relay dlq retry --all --yes`, and set it back"
	}
	if size <= hardLimit {
		fix = fmt.Sprintf("set max.message.bytes of topic %s to at least %d, or %s", opts.Topic, min(size+letterGrowth, hardLimit), fix)
	}
	return cdc.Stop(cdc.ClassRuntime, "too_large", fmt.Errorf("event %q of %s would be a dead letter of %d bytes, of which topic %q allows %d (%s)",
		d.ID, d.Table, size, opts.Topic, limit, why), fix+", or list the event under errors.skip, and restart the relay")
}

// sameIDError is that of rows which were read from the table by SQL: two have the same ID, and a second letter would take the place of the first.
func sameIDError(d *deadletter.Letter) error {
	return cdc.Stop(cdc.ClassRuntime, "same_event_id", fmt.Errorf("two rows of %s have the event ID %q, and both would be dead letters (%s)", d.Table, d.ID, d.Reason),
		"give each row an ID of its own, or delete one of them, and run the same command again")
}

// acknowledged notes where the letters of a batch are.
func (s *deadLetters) acknowledged(b *batch) {
	if b.p.topic.name != s.opts.Topic || b.offset <= 0 {
		return
	}
	for i := range b.n {
		if m := b.p.queue.at(i).m; m.Value != nil {
			s.index.Found(string(m.Key), b.offset+int64(i))
		}
	}
}

// letterPartition keeps the letters of a key together.
func letterPartition(key []byte, id string, partitions int) int32 {
	if len(key) == 0 {
		key = []byte(id)
	}
	return int32(partitionOf(key, partitions))
}

// letter describes the event, as far as what it was made of tells.
func (what *letter) letter(r *cdc.Routed) *deadletter.Letter {
	b, row := r.Batch, int(what.row)
	d := &deadletter.Letter{Entry: deadletter.Entry{
		Place: b.Place(row), Table: b.Table.String(), Reason: what.reason, Error: what.text,
	}}
	form, short := cdc.FormBytes, deadletter.Short
	if m := what.message; m != nil {
		d.RecordKey, d.Payload, d.Headers, d.Topic = m.Key, m.Value, m.Headers, m.Topic
		d.ID = short(m.ID)
		if r.Payload >= 0 {
			if _, ok := b.Value(row, r.Payload); !ok {
				d.Payload = nil // the letter has the row, and not what its table makes of NULL
			}
		}
	} else {
		f := what.refused
		d.RecordKey, d.ID = f.Key, short(f.EventID)
		d.Payload, form = rawPayload(b, row, r.Payload)
	}
	if r.Describer != nil {
		about := r.Describer.Describe(b, row)
		d.Type, d.AggregateType, d.Tenant = short(about.Type), short(about.AggregateType), short(about.Tenant)
	}
	d.Key = cdc.KeyText(d.RecordKey)
	d.Row = deadletter.RowOf(b, row, r.Payload, form)
	return d
}

// rawPayload is the payload of a row that made no record, as a record would have it, or as it came if it cannot be read.
func rawPayload(b *cdc.Batch, row, column int) ([]byte, cdc.Form) {
	if column < 0 {
		return nil, cdc.FormBytes
	}
	raw, ok := b.Value(row, column)
	if !ok {
		return nil, cdc.FormBytes
	}
	form := b.Table.Columns[column].Form
	if value, _, err := form.Bytes(nil, raw); err == nil {
		raw, form = value, cdc.FormBytes
	}
	if raw == nil {
		raw = []byte{}
	}
	return raw, form
}

func letterID(b *cdc.Batch, row int32, eventID []byte) string {
	return deadletter.ID(eventID, b.Place(int(row)))
}

// note counts and logs a new letter.
func (s *deadLetters) note(d *deadletter.Letter) {
	s.loop.metrics.letters.WithLabelValues(d.Reason).Inc()
	s.loop.log.Warn("event became a dead letter", cdc.Repeats(), slog.String("table", d.Table), cdc.EventAttr(d.ID, []byte(d.Key), d.Topic),
		slog.String("reason", d.Reason), slog.String("error", d.Error))
}

// release queues the events that waited for the last letters of their key, in order: those behind a letter that is left, or that
// has come meanwhile, become letters too.
func (s *deadLetters) release(name string) {
	behind := s.behindClosed[name]
	delete(s.behindClosed, name)
	delete(s.closing, name)
	for _, e := range behind {
		if s.index.Precedes(name, s.index.Order(e.pending.seq, e.m.Row), false) {
			s.loop.buffered -= e.weight()
			s.bury(e.pending, &letter{message: e.m, row: e.m.Row, reason: deadletter.Held})
		} else {
			s.loop.requeue(e)
		}
	}
}

func ownTopicError(tp *topic, cause error) error {
	return cdc.Stop(cdc.ClassConfig, "dead_letter_topic", fmt.Errorf("publish to topic of dead letters %q: %w", tp.name, cause), kafka.CreateLetterTopic)
}
