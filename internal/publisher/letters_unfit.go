package publisher

import (
	"fmt"
	"log/slog"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
)

// # Letters that are too large
//
// A letter has more than its event, so it may be larger than the topic of letters allows. Then the event can neither be published nor
// become a letter. Its batch is accepted already, and a transaction with it could not end, so the attempt ends. The next one, in the
// same process, knows the event: it accepts what comes before its batch, then nothing more, and obeys commands, as a relay does that
// may have no more letters. It goes on once the topic allows the letter, or, if the event only waits behind letters of its key, once
// these are resolved.

// unfit is an event whose letter is too large. It outlives the attempt.
type unfit struct {
	hold  string // whose letters are before it; "": something is wrong with the event itself
	bytes int    // that the topic has to allow; 0: its limit was lowered, and is read again
	freed bool   // it was accepted again because no letter is before it
	again bool   // it could not be published even then
	why   error
}

// letterGrowth is how much larger a letter may be in a later attempt: its time and order have as many digits as they need.
const letterGrowth = 64

// allowance is what a topic has to allow for a letter to be accepted.
func allowance(need int) int { return max(need, min(need+letterGrowth, hardLimit)) }

// letterLimit is how large a letter may be.
func (s *deadLetters) letterLimit() int { return min(s.loop.topic(s.opts.Topic).limit, hardLimit) }

// letterSize is what a broker compares with the limit. Compressed, a record that does not compress takes more; a letter that compresses well
// is measured as if it did not.
func (s *deadLetters) letterSize(m *cdc.Message) int {
	body := bodySize(m)
	size := varintSize(body) + body + batchOverhead
	if s.loop.codec != 0 {
		size += size>>10 + 64
	}
	return size
}

// misfit ends the attempt because of a letter that a broker rejects: somebody has lowered the limit, which the next attempt reads. A letter
// that is rejected although it fits then stops the relay.
func (s *deadLetters) misfit(e *queuedMessage, why rejection) bool {
	id := string(e.m.Key)
	u := s.unfit[id]
	if e.m.Topic != s.opts.Topic || why.reason != "too_large" || u != nil && u.bytes == 0 {
		return false
	}
	s.unfit[id] = &unfit{}
	s.loop.stopAt(e.pending.seq, nil, fmt.Errorf("%w: write a dead letter: %w", cdc.ErrRewind, why.err))
	return true
}

// endAttempt notes a letter that is too large, which id names. One that has an entry already is not published, whatever is before it.
func (s *deadLetters) endAttempt(pending *pendingBatch, id string, d *deadletter.Letter, need int, hasEntry bool) {
	before := s.unfit[id]
	u := &unfit{bytes: allowance(need), again: before != nil && before.freed}
	if d.Reason == deadletter.Held && !hasEntry {
		u.hold = d.HoldName()
	}
	u.why = s.unfitError(d, need, u.hold != "" && !u.again)
	if hasEntry {
		u.why = s.loweredError(d, need)
	}
	s.unfit[id] = u
	s.loop.stopAt(pending.seq, nil, fmt.Errorf("%w: %w", cdc.ErrRewind, u.why))
}

// unfitError says what to do about it. behind says that letters of its key are before the event.
func (s *deadLetters) unfitError(d *deadletter.Letter, need int, behind bool) error {
	raise := ""
	if need <= hardLimit {
		raise = fmt.Sprintf("; or set max.message.bytes of topic %s to at least %d", s.opts.Topic, allowance(need))
	}
	if behind {
		return cdc.Fixable("see the reasons with `cdc-relay dlq list`, and once they are repaired publish the dead letters before it with `cdc-relay dlq retry --all --yes`, or drop those that nobody needs"+raise,
			"nothing is published: event %q waits for dead letters of its key %q, and would be one of %d bytes, of which topic %q allows %d",
			d.ID, d.Key, need, s.opts.Topic, s.letterLimit())
	}
	why := d.Reason + ": " + d.Error
	if d.Reason == deadletter.Held {
		why = "an event of its key before it became a dead letter"
	}
	return cdc.Fixable("remove the cause, or list the event that causes it under errors.skip, and restart the relay"+raise,
		"nothing is published: event %q cannot be published (%s), and would be a dead letter of %d bytes, of which topic %q allows %d",
		d.ID, why, need, s.opts.Topic, s.letterLimit())
}

func (s *deadLetters) loweredError(d *deadletter.Letter, need int) error {
	return cdc.Fixable(fmt.Sprintf("set max.message.bytes of topic %s to at least %d", s.opts.Topic, allowance(need)),
		"nothing is published: event %q became a dead letter of %d bytes, of which topic %q allows only %d now", d.ID, need, s.opts.Topic, s.letterLimit())
}

// withholds reports whether a batch is not accepted now, because of an event whose letter is too large.
func (s *deadLetters) withholds(r *cdc.Routed) bool {
	s.withheld = nil
	if len(s.unfit) == 0 {
		return false
	}
	for i := range r.Messages {
		s.withholdFor(r, r.Messages[i].Row, r.Messages[i].ID)
	}
	for i := range r.Refused {
		s.withholdFor(r, r.Refused[i].Row, r.Refused[i].EventID)
	}
	if s.withheld == nil {
		s.index.Withhold(nil)
	}
	return s.withheld != nil
}

func (s *deadLetters) withholdFor(r *cdc.Routed, row int32, eventID []byte) {
	if u := s.unfit[letterID(r.Batch, row, eventID)]; u != nil && s.withheld == nil && !s.mayPass(u) {
		s.withheld = r
		s.index.Withhold(u.why)
	}
}

// mayPass reports whether the event may be accepted again. What was accepted before it may yet become a letter of its key, so that is
// resolved first. If the event cannot be published even then, its key is held by what is before it in its own batch. If it is accepted because
// the limit was raised, and its letter is too large again, this is not known.
func (s *deadLetters) mayPass(u *unfit) bool {
	fits := u.bytes <= s.letterLimit()
	u.freed = !fits && u.hold != "" && !u.again && s.loop.pending.open.len() == 0 && s.open == 0 && !s.index.Holds([]byte(u.hold))
	return fits || u.freed
}

// reconsider accepts the batch that is withheld, as soon as it may be.
func (s *deadLetters) reconsider() {
	r, l := s.withheld, s.loop
	if r == nil || l.failure != nil {
		return
	}
	if l.txn.hasRoom() {
		l.accept(r)
	}
	if s.withheld == nil {
		l.wakeAt(l.now) // this turn has sent already
		return
	}
	if !l.now.Before(s.limitAt) {
		s.limitAt = l.now.Add(l.opts.Timing.MetadataInterval / 60)
		tp := l.topic(s.opts.Topic)
		tp.limitStale = true
		l.wantMetadata(tp)
		l.log.Error("no more events are accepted", cdc.Repeats(), slog.Any("error", s.index.Withheld()))
	}
	l.wakeAt(s.limitAt)
}
