package deadletter

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// ask is one that was found in the index: nil as soon as its command has gone.
type ask struct {
	id    string
	asked *Ask
}

// follow reads the index behind the barrier, and passes on what commands ask, until ctx ends. Its error ends the run: the next leader would
// not know the letters either that were in the index before.
func (r *Resolver) follow(ctx context.Context, from int64, asked chan<- ask) error {
	for truncated := 0; ctx.Err() == nil; truncated++ {
		err := r.followOnce(ctx, &from, asked)
		switch {
		case kafka.Truncated(err) && truncated < 3: // by a replica that is behind, if metadata is old
		case kafka.Truncated(err):
			return cdc.Stop(cdc.ClassRuntime, "dead_letter_topic", fmt.Errorf("index of dead letters %q ends before offset %d: it was truncated, or deleted and made again", r.opts.Index, from),
				"publish the events of the dead letters that were in it with `cdc-relay replay --since TIME`, and restart the relay")
		case ctx.Err() == nil:
			truncated = -1
			r.log.Warn("index of dead letters not read, retrying", cdc.Repeats(), slog.Any("error", err))
		}
		_ = cdc.Sleep(ctx, interval)
	}
	return nil
}

func (r *Resolver) followOnce(ctx context.Context, from *int64, asked chan<- ask) error {
	client := kafka.NewClient(r.opts.Kafka)
	defer client.Close()
	return client.Follow(ctx, r.opts.Index, 0, *from, func(rec *kafka.Record) error {
		*from = rec.Offset + 1
		id, ok := strings.CutPrefix(string(rec.Key), string(AskKey("")))
		if !ok {
			return nil
		}
		a := ask{id: id}
		if rec.Value != nil {
			a.asked = new(Ask)
			err := json.Unmarshal(rec.Value, a.asked)
			ok = err == nil && a.asked.State == "" // otherwise an answer of this relay
		}
		if !ok {
			return nil
		}
		select {
		case asked <- a:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// asks are those of commands that wait, by ID.
type asks map[string]*pending

// pending is an ask that was heard.
type pending struct {
	do   string
	left map[string]bool
	// accepted: the letters of a drop that are left are never published, also by the next leader. A letter that is gone was dropped.
	accepted     bool
	done, failed int
	skipped      int // dropped by a retry
	waits        string
	refused      string
	answered     string // the state that its command was told last
}

func (p *pending) state() string {
	if len(p.left) > 0 {
		return Accepted
	}
	return Ended
}

// take adds an ask. One that is sent again is answered again.
func (s asks) take(a ask) {
	p := s[a.id]
	switch {
	case a.asked == nil:
		delete(s, a.id)
	case p != nil:
		p.answered = ""
	default:
		s[a.id] = a.asked.pending()
	}
}

// pending hears a request, or refuses one that only relays of another version know.
func (a *Ask) pending() *pending {
	p := &pending{do: a.Do, left: map[string]bool{}, done: a.Done}
	if p.do != Retry && p.do != Drop {
		p.refused = fmt.Sprintf("it does not know the request %q", p.do)
		return p
	}
	for _, id := range a.Letters {
		p.left[id] = true
	}
	return p
}

// accept accepts drops of letters that are in the index. The caller publishes nothing meanwhile: the next leader takes a letter that has gone
// since for a dropped one.
func (s asks) accept(x *Index) {
	for _, p := range s {
		if p.do == Drop && !p.accepted {
			p.removeGone(x)
			p.accepted, p.answered = true, ""
		}
	}
}

// removeGone removes letters that are resolved.
func (p *pending) removeGone(x *Index) {
	for id := range p.left {
		if _, _, found := x.letter(id); found {
			continue
		}
		if p.do == Drop && (p.accepted || x.Remembers(id)) {
			p.done++
		}
		delete(p.left, id)
	}
}

// want reports whether somebody asks for it. A letter that is to be dropped is not published any more.
func (s asks) want(do, id string) bool {
	for _, p := range s {
		if p.do == do && p.left[id] {
			return true
		}
	}
	return false
}

// toDrop are the letters that somebody asks to drop.
func (s asks) toDrop() map[string]bool {
	ids := map[string]bool{}
	for _, p := range s {
		if p.do == Drop {
			maps.Copy(ids, p.left)
		}
	}
	return ids
}

// result is what became of a letter that was to be published or dropped.
type result uint8

const (
	resolved result = iota
	// skipped: dropped in place of published, because errors.skip lists its event.
	skipped
	failed
)

// outcome notes what became of a letter. Who asked for the other is not told that it was done; a letter that cannot be published can
// be dropped.
func (s asks) outcome(do, id string, became result) {
	for _, p := range s {
		switch {
		case !p.left[id], became == failed && p.do != do:
			continue
		case became == failed:
			p.failed++
		case p.do == do && became == skipped:
			p.skipped++
		case p.do == do:
			p.done++
		}
		delete(p.left, id)
	}
}

// review looks at what was not done: it waits, or it cannot be done. postponed returns why a letter is not tried yet, or "".
func (s asks) review(x *Index, wanted Wanted, postponed func(id string) string) {
	for _, p := range s {
		p.waits = ""
		p.removeGone(x)
		for id := range p.left {
			w, is, _ := x.letter(id)
			switch {
			case p.do == Drop: // it is being written, or another one of its key
			case is != stored:
				p.waits = "the relay has yet to read its row again; if the database was restored or failed over without it, drop the dead letter with `cdc-relay dlq drop ID`"
			default:
				head, isStored, found := x.Head(id)
				if !found {
					head = w
				}
				if why := postponed(head.ID); why != "" {
					p.waits = why
				} else if found && isStored && !s.want(Drop, head.ID) && !wanted(&head) { // it stays, and what is behind it
					p.failed++
					delete(p.left, id)
				}
			}
		}
	}
}

// answer tells the commands of asks in a state, if they do not know yet.
func (r *Resolver) answer(ctx context.Context, state string) error {
	answers, told := map[string][]byte{}, map[*pending]string{}
	for id, p := range r.asks {
		now := p.state() + p.waits
		if p.state() != state || p.answered == now {
			continue
		}
		a := &Ask{Do: p.do, State: state, Waits: p.waits, Done: p.done, Failed: p.failed, Skipped: p.skipped, Refused: p.refused}
		if p.accepted && state == Accepted {
			a.Letters = slices.Sorted(maps.Keys(p.left))
		}
		answers[string(AskKey(id))], told[p] = a.Encode(), now
	}
	if err := r.sink.WriteIndex(ctx, answers); err != nil {
		return err
	}
	for p, now := range told {
		p.answered = now
	}
	return nil
}
