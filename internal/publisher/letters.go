package publisher

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
)

// # Dead letters
//
// An event that cannot be published becomes a letter: its entry in the index is written first, then the letter, and only then does
// the event count as acknowledged. So a letter always has an entry, and no position passes an event that is in neither. From then
// on the key is held: its later events become letters too, until the last of them is resolved.
//
// An event that is queued already when its key becomes held is found when it is about to be sent ([loop.overtaken]).

// LetterOptions say where dead letters go.
type LetterOptions struct {
	deadletter.Options

	// Topic holds the letters, in so many Partitions, and Index says which there are.
	Topic, Index string
	Partitions   int
	// Stored is called when a letter can be resolved. It must not block.
	Stored func()
	// MayStub returns once it is known that the row of a letter is not removed while the letter needs it, or an error if no letter may
	// be without its payload; nil: it may. It is called in a goroutine of its own, and letters wait until it returns.
	MayStub func(ctx context.Context) error
}

// letters is what the loop knows of them.
type letters struct {
	opts  *LetterOptions
	index *deadletter.Index // nil until it is installed
	// swept: entries of batches up to this one may be behind a letter of their key that became one later.
	swept uint64
	// closing has the keys whose last letters are being resolved, until when that may take. Their new events wait in parked.
	closing map[string]time.Time
	parked  map[string][]entry

	name    []byte  // of the event that is accepted, what it holds
	open    int     // tasks that have begun and not ended
	waiting []*task // tasks that have not begun
	barrier barrier
	gate    gate
}

// gate holds new letters back while it is not known whether one may be without its payload: the entries of a key are written in order.
type gate struct {
	open   bool // a letter may be without its payload
	asking bool
	behind []*task // in order; the first one asks
}

// pass returns the step of a letter that the gate may hold back.
func pass(stub bool) func(*loop, *task) {
	return func(l *loop, t *task) {
		g, ask := &l.letters.gate, l.letters.opts.MayStub
		if stub && !g.open && !g.asking && ask != nil {
			g.asking = true
			l.ask(func(ctx context.Context) event { return gateAnswer{ask(ctx)} })
		}
		if g.asking {
			g.behind = append(g.behind, t)
			return
		}
		l.next(t)
	}
}

// gateAnswer is what MayStub has returned.
type gateAnswer struct{ err error }

func (a gateAnswer) apply(l *loop) {
	g := &l.letters.gate
	if a.err != nil {
		l.stopAt(g.behind[0].seq, nil, a.err) // the gate stays closed
		return
	}
	behind := g.behind
	*g = gate{open: true}
	for _, t := range behind {
		l.next(t)
	}
}

// takes decides about an event that was accepted: it becomes a letter if its key is held, or if an earlier run has made one of it.
func (l *loop) takes(pending *pendingBatch, m *cdc.Message) bool {
	x := l.letters.index
	if x.Len() == 0 {
		return false
	}
	b := pending.routed.Batch
	if old := x.Unmet(func() string { return letterID(b, m.Row, eventID(m)) }); old != nil {
		l.bury(pending, &letter{message: m, row: m.Row, earlier: old, reason: old.Reason, text: old.Error})
		return true
	}
	l.letters.name = deadletter.AppendHoldName(l.letters.name[:0], b.Table, m.Key)
	if !x.Holds(l.letters.name) {
		return false
	}
	name := string(l.letters.name)
	if _, closing := l.letters.closing[name]; closing {
		e := entry{m: m, pending: pending, body: int32(min(bodySize(m), 1<<30))}
		l.buffered += e.weight()
		l.letters.parked[name] = append(l.letters.parked[name], e)
	} else {
		l.bury(pending, &letter{message: m, row: m.Row, reason: deadletter.Held})
	}
	return true
}

// refuse makes a letter of a row that made no record.
func (l *loop) refuse(pending *pendingBatch, r *cdc.Refused) {
	id := func() string { return letterID(pending.routed.Batch, r.Row, r.EventID) }
	l.bury(pending, &letter{refused: r, row: r.Row, earlier: l.letters.index.Unmet(id), reason: r.Reason, text: deadletter.Shortened(r.Err)})
}

// overtaken reports whether e may not be sent, because there is a letter of its key that comes before it.
func (l *loop) overtaken(e *entry) bool {
	switch {
	case l.letters == nil || l.letters.index == nil:
		return false
	case e.pending.item != nil:
		it := e.pending.item
		return l.letters.index.Precedes(it.name, it.order, true)
	case e.pending.routed == nil || e.pending.seq > l.letters.swept:
		return false
	}
	x := l.letters.index
	return x.Precedes(deadletter.HoldName(e.pending.routed.Batch.Table, e.m.Key), x.Order(e.pending.seq, e.m.Row), false)
}

// giveUp decides about an event that cannot be published. e is in no queue any more.
func (l *loop) giveUp(e *entry, why rejection) {
	l.buffered -= e.weight()
	switch {
	case e.pending.item != nil:
		l.failed(e.pending.item, why)
	case l.overtaken(e):
		l.bury(e.pending, &letter{message: e.m, row: e.m.Row, reason: deadletter.Held})
	case why.policy == cdc.PolicyDeadLetter:
		l.letters.swept = l.lastSeq.Load()
		l.bury(e.pending, &letter{message: e.m, row: e.m.Row, reason: why.reason, text: deadletter.Shortened(why.err)})
	default:
		l.dropMessage(e, why.reason, why.err)
	}
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
func (l *loop) bury(pending *pendingBatch, what *letter) {
	x, opts := l.letters.index, l.letters.opts
	d := what.letter(pending.routed)
	d.Order, d.Time = x.Order(pending.seq, what.row), l.now.UTC()
	if what.earlier != nil {
		d.Time, d.Attempts = what.earlier.Time, what.earlier.Attempts
	}
	id := deadletter.ID([]byte(d.ID), d.Place)
	d.Partition = letterPartition(d.RecordKey, id, opts.Partitions)
	record := l.letterRecord(d, id)
	entry := own{cdc.Message{Topic: opts.Index, Key: deadletter.EntryKey(id), Value: d.Encode()}, 0}
	x.Add(id, &d.Entry)
	steps := []func(*loop, *task){pass(d.Stub)}
	if what.earlier == nil {
		steps = append(steps, func(l *loop, t *task) {
			l.noteLetter(d)
			l.next(t)
		})
	}
	if l.group != nil {
		steps = append(steps, write(entry, record))
	} else {
		steps = append(steps, write(entry), write(record))
	}
	l.begin(&task{seq: pending.seq, steps: append(steps, func(l *loop, t *task) {
		l.next(t)
		l.resolve(pending, 1)
		l.whenCommitted(func() { // it can be read from now on
			x.Stored(id)
			opts.Stored() // it may be due already
		})
	})})
}

// noteOffsets notes where the letters of a batch are. Without an index, at a start, it has none.
func (l *loop) noteOffsets(b *batch) {
	if l.letters == nil || l.letters.index == nil || b.p.topic.name != l.letters.opts.Topic || b.offset <= 0 {
		return
	}
	for i := range b.n {
		if m := b.p.queue.at(i).m; m.Value != nil {
			l.letters.index.Found(string(m.Key), b.offset+int64(i))
		}
	}
}

// letterRecord is the letter itself, as a stub if it would be too large.
func (l *loop) letterRecord(d *deadletter.Letter, id string) own {
	record := own{cdc.Message{Topic: l.letters.opts.Topic, Key: []byte(id)}, d.Partition}
	record.message.Value, record.message.Headers = d.EncodeRecord()
	if size := bodySize(&record.message) + batchOverhead + recordGrowth; size > min(l.topic(l.letters.opts.Topic).limit, hardLimit) {
		d.MakeStub()
		record.message.Value, record.message.Headers = d.EncodeRecord()
	}
	return record
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
		d.ID, d.Type, d.AggregateType, d.Tenant = short(eventID(m)), short(header(m, "ce_type")), short(header(m, "ce_aggregatetype")), short(header(m, "ce_tenant"))
	} else {
		f := what.refused
		d.RecordKey, d.ID, d.Type, d.AggregateType, d.Tenant = f.Key, short(f.EventID), short(f.Type), short(f.AggregateType), short(f.Tenant)
		d.Payload, form = rawPayload(b, row, r.Payload)
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

// eventID is that of a record of the router: the first header is ce_id.
func eventID(m *cdc.Message) []byte { return m.Headers[0].Value }

func header(m *cdc.Message, name string) []byte {
	for i := range m.Headers {
		if string(m.Headers[i].Key) == name {
			return m.Headers[i].Value
		}
	}
	return nil
}

// noteLetter counts and logs a new letter.
func (l *loop) noteLetter(d *deadletter.Letter) {
	l.metrics.letters.WithLabelValues(d.Reason).Inc()
	l.log.Warn("event became a dead letter", cdc.Repeats(), slog.String("table", d.Table), cdc.EventAttr(d.ID, []byte(d.Key), d.Topic),
		slog.String("reason", d.Reason), slog.String("error", d.Error))
}

// release queues the events that waited for the last letters of their key, in order: those behind a letter that is left, or that
// has come meanwhile, become letters too.
func (l *loop) release(name string) {
	parked := l.letters.parked[name]
	delete(l.letters.parked, name)
	delete(l.letters.closing, name)
	x := l.letters.index
	for _, e := range parked {
		if x.Precedes(name, x.Order(e.pending.seq, e.m.Row), false) {
			l.buffered -= e.weight()
			l.bury(e.pending, &letter{message: e.m, row: e.m.Row, reason: deadletter.Held})
		} else {
			l.requeue(e)
		}
	}
}

func ownTopicError(tp *topic, cause error) error {
	return cdc.Stop(cdc.ClassConfig, "dead_letter_topic", fmt.Errorf("publish to topic of dead letters %q: %w", tp.name, cause),
		"create it with `cdc-relay setup`, and see to it that nobody deletes it")
}
