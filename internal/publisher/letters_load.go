package publisher

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
)

// # Letters at a start
//
// A publisher that opens writes a barrier into the index and into each partition of the topic of letters. What an earlier relay, which
// is fenced, still writes is rejected from there on, so that the index before the barrier is complete. With exactly-once delivery
// the barrier is committed with the first position.
//
// Letters that were resolved, and whose tombstones are missing, are removed before the first event is accepted: later the tombstones
// could remove letters of the same rows, which may come again. Those that were dropped stay while their rows may come again.

// barrier is that of a start.
type barrier struct {
	offset  int64         // in the index
	written chan struct{} // closed once it is acknowledged
}

// startLetters makes l put events into the dead letters.
func (p *Publisher) startLetters(l *loop) {
	o := p.opts.Letters
	p.barrier = &barrier{written: make(chan struct{})}
	l.letters = &deadLetters{
		loop: l, opts: o, index: p.newIndex(nil, nil), closing: map[string]time.Time{}, behindClosed: map[string][]queuedMessage{}, barrier: p.barrier,
	}
	p.mail.post(call(func(l *loop) { l.letters.writeBarrier() }))
}

func (p *Publisher) newIndex(entries map[string]*deadletter.Entry, passed func(place string) bool) *deadletter.Index {
	return deadletter.NewIndex(p.opts.Letters.Options, func(from, to fmt.Stringer) { badMove(&p.opts, p.log, "letter", from, to) }, entries, passed)
}

// writeBarrier is the first thing that a loop with letters does.
func (s *deadLetters) writeBarrier() {
	o := s.opts
	records := []cdc.Message{o.entry([]byte(deadletter.Barrier), []byte{})}
	for id := range o.Partitions {
		records = append(records, cdc.Message{Topic: o.Topic, Partition: int32(id) + 1, Key: []byte(deadletter.Barrier), Value: []byte{}})
	}
	s.begin(&task{steps: []step{
		write(records...),
		func(s *deadLetters, t *task) {
			s.barrier.offset = s.loop.topic(o.Index).partitions[0].end
			close(s.barrier.written)
			s.next(t)
		},
	}})
}

// install makes index that of a start, once what the steps write is durable, or becomes so with the next commit. Then it closes done.
func (s *deadLetters) install(index *deadletter.Index, steps []step, done chan struct{}) {
	s.begin(&task{steps: append(steps, func(s *deadLetters, t *task) {
		s.index, s.installed = index, true
		s.next(t)
		close(done)
	})})
}

// LoadLetters reads the index of dead letters: it follows Open, and precedes the first Send, and with exactly-once delivery the
// second Commit. id is this relay's source; passed reports whether the position to start from is behind a place. Without dead letters
// it does nothing, and returns nil. A [cdc.StopError] says that the letters are another source's.
func (p *Publisher) LoadLetters(ctx context.Context, id cdc.Source, passed func(place string) bool) (*deadletter.Loaded, error) {
	if p.opts.Letters == nil {
		return nil, nil //nolint:nilnil // no letters is an answer
	}
	if err := await(ctx, p, p.barrier.written, p.out); err != nil {
		return nil, err
	}
	end := p.barrier.offset
	records, _, err := deadletter.ReadIndex(ctx, p.opts.Kafka, p.opts.Letters.Index, end)
	if err != nil {
		return nil, err
	}
	if err := p.verifySource(records.Source, id); err != nil {
		return nil, err
	}
	if err := cmp.Or(records.Whole(), records.OfTables(p.opts.Letters.Tables)); err != nil {
		return nil, err
	}
	loaded := &deadletter.Loaded{Index: p.newIndex(records.Entries, passed), Barrier: end, Accepted: map[string]*deadletter.Ask{}}
	for id, a := range records.Asks {
		if a.Do == deadletter.Drop && (a.State == deadletter.Accepted || a.Again) && len(a.Letters) > 0 {
			loaded.Accepted[id] = a
		}
	}
	err = p.askUnless(ctx, p.out, func(s *deadLetters, done chan struct{}) {
		s.install(loaded.Index, p.cleanup(records, loaded, id), done)
	})
	return loaded, err
}

// verifySource refuses letters of another source: this relay would hold, publish and drop what is not its own.
func (p *Publisher) verifySource(of *deadletter.SourceRecord, id cdc.Source) error {
	if of == nil || *of == *deadletter.NewSourceRecord(id) {
		return nil
	}
	return cdc.Stop(cdc.ClassConfig, "foreign_dead_letters", fmt.Errorf(
		"topic of dead letters %q is that of another source (system %s, database %s, slot %s), this one is system %s, database %s, slot %s",
		p.opts.Letters.Topic, of.SystemID, of.Database, of.Slot, id.SystemID, id.Database, id.Slot),
		"give each relay its own dead_letter.topic, also if this database has replaced that one: before its first start publish from the table what is in the other's dead letters, with `cdc-relay replay --id ID`")
}

// cleanup removes what is done, and asks whose commands have to ask again, in that order.
func (p *Publisher) cleanup(records *deadletter.Records, loaded *deadletter.Loaded, id cdc.Source) []step {
	o, done := p.opts.Letters, map[string]int32{}
	for id, e := range records.Entries {
		if e.Done != "" && !loaded.Index.Remembers(id) {
			done[id] = e.Partition
		}
	}
	topic, index := forgotten(o, done)
	for ask := range records.Asks {
		if loaded.Accepted[ask] == nil {
			index = append(index, o.entry(deadletter.AskKey(ask), nil))
		}
	}
	if records.Source == nil {
		index = append(index, o.entry([]byte(deadletter.SourceKey), deadletter.NewSourceRecord(id).Encode()))
	}
	return []step{write(topic...), write(index...)}
}
