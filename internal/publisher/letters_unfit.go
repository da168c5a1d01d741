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
	bytes int    // of the letter
	again bool   // it was accepted once more, and could not be published
	why   error
}

// letterLimit is how large a letter may be.
func (s *deadLetters) letterLimit() int { return min(s.loop.topic(s.opts.Topic).limit, hardLimit) }

// endAttempt notes a letter that is too large, which id names.
func (s *deadLetters) endAttempt(pending *pendingBatch, id string, d *deadletter.Letter, need int) {
	u := &unfit{bytes: need, again: s.unfit[id] != nil}
	if d.Reason == deadletter.Held {
		u.hold = d.HoldName()
	}
	u.why = s.unfitError(d, need, u.hold != "" && !u.again)
	s.unfit[id] = u
	s.loop.stopAt(pending.seq, nil, fmt.Errorf("%w: %w", cdc.ErrRewind, u.why))
}

// unfitError says what to do about it. behind says that letters of its key are before the event.
func (s *deadLetters) unfitError(d *deadletter.Letter, need int, behind bool) error {
	raise := ""
	if need <= hardLimit {
		raise = fmt.Sprintf("; or set max.message.bytes of topic %s to at least %d", s.opts.Topic, need)
	}
	if behind {
		return cdc.Fixable("see the reasons with `cdc-relay dlq list`, and once they are repaired publish the letters before it with `cdc-relay dlq retry --all --yes`, or drop those that nobody needs"+raise,
			"nothing is published: event %q waits behind dead letters of its key %q, and would be one of %d bytes, of which topic %q allows %d",
			d.ID, d.Key, need, s.opts.Topic, s.letterLimit())
	}
	why := d.Reason + ": " + d.Error
	if d.Reason == deadletter.Held {
		why = "it waits behind one that became a dead letter together with it, see the log"
	}
	return cdc.Fixable("remove the cause, or list the event that causes it under errors.skip, and restart the relay"+raise,
		"nothing is published: event %q cannot be published (%s), and would be a dead letter of %d bytes, of which topic %q allows %d",
		d.ID, why, need, s.opts.Topic, s.letterLimit())
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
// resolved first. If the event cannot be published even then, its key is held by what is before it in its own batch.
func (s *deadLetters) mayPass(u *unfit) bool {
	free := u.hold != "" && !u.again && s.loop.pending.open.len() == 0 && s.open == 0 && !s.index.Holds([]byte(u.hold))
	return free || u.bytes <= s.letterLimit()
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
