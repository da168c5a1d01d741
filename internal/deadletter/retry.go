package deadletter

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// roundLetters is the most letters of a round, between which drops are accepted. A key has at most half of them.
const roundLetters = 2048

// retry publishes a round of letters, and reports whether any was tried.
func (r *Resolver) retry(ctx context.Context) (bool, error) {
	work, whole := r.index.Retryable(r.round, r.wanted)
	if len(work) == 0 {
		return false, nil
	}
	if len(whole) > 0 {
		if err := r.sink.CloseKeys(ctx, whole); err != nil {
			return false, err
		}
		work = r.allStored(ctx, work, whole)
	}
	tried, err := r.retryAll(ctx, work)
	if err == nil {
		err = r.sink.OpenKeys(ctx, whole)
	}
	if err == nil {
		err = r.sink.Forget(ctx, r.done) // last: a commit would wait for the events of closed keys
	}
	if err == nil {
		clear(r.done)
	}
	return tried, err
}

// allStored returns the work with all letters of keys that are closed, once the last ones are written.
func (r *Resolver) allStored(ctx context.Context, work []Work, closed []string) []Work {
	slices.Sort(closed)
	work = slices.DeleteFunc(work, func(w Work) bool {
		_, found := slices.BinarySearch(closed, w.Hold)
		return found
	})
	for until := time.Now().Add(time.Second); ; {
		last, whole := r.index.RetryableOf(closed, r.wanted)
		if len(whole) >= len(closed) || time.Now().After(until) {
			return append(work, last...)
		}
		if cdc.Sleep(ctx, 5*time.Millisecond) != nil {
			return nil
		}
	}
}

func (r *Resolver) retryAll(ctx context.Context, work []Work) (bool, error) {
	partitions := map[int32][]Work{}
	for i := range work {
		partitions[work[i].Partition] = append(partitions[work[i].Partition], work[i])
	}
	leaders := map[string]string{}
	tried := false
	for _, id := range slices.Sorted(maps.Keys(partitions)) {
		n, err := r.retryPartition(ctx, id, partitions[id], leaders)
		tried = tried || n > 0
		if err != nil {
			return tried, err
		}
	}
	return tried, nil
}

// route routes a letter as it would be now.
func (r *Resolver) route(p *piece) {
	l := p.letter
	p.Attempts = l.Attempts
	p.Failed = func(reason string, err error) []byte {
		e := l.Entry
		e.Reason, e.Error, e.Tried = reason, Shortened(err), time.Now().UTC()
		return e.Encode()
	}
	b := l.Batch(r.tables)
	routed := new(cdc.Routed)
	routed.Reset(b)
	err := r.router.Route(b, routed)
	switch {
	case cdc.ReasonOf(err) == cdc.MissingColumn && l.Reason == "malformed": // its table may have the column, the row never will
		p.Reason, p.Refused = l.Reason, errors.New(l.Error)
	case err != nil:
		p.Reason, p.Refused = cmp.Or(cdc.ReasonOf(err), "unroutable"), err
	case len(routed.Refused) > 0:
		p.Reason, p.Refused = routed.Refused[0].Reason, routed.Refused[0].Err
	case len(routed.Messages) > 0:
		p.Message = &routed.Messages[0]
	} // without a message it is listed under errors.skip, and dropped
}

// resolve publishes or drops letters, and tells the asks.
func (r *Resolver) resolve(ctx context.Context, do string, letters []Resolution) error {
	outcomes, err := r.sink.Resolve(ctx, letters)
	if err != nil {
		return err
	}
	for i, o := range outcomes {
		l := &letters[i]
		switch {
		case o.Skipped:
		case o.Err != nil:
			r.asks.outcome(do, l.ID, failed)
			r.log.Warn("dead letter stays: it cannot be published",
				cdc.Repeats(), eventAttr(l.ID, l.Hold, l.Message), slog.String("letter", l.ID), slog.String("reason", o.Reason), slog.Any("error", o.Err))
		default:
			became := resolved
			if do == Retry && l.Message == nil {
				became = skipped
				r.log.Warn("dead letter dropped: errors.skip lists its event", cdc.Repeats(), eventAttr(l.ID, l.Hold, nil), slog.String("letter", l.ID))
			}
			r.asks.outcome(do, l.ID, became)
			if l.Message != nil { // what is dropped is removed later, see forget
				r.done[l.ID] = l.Partition
			}
		}
	}
	return r.hear(ctx)
}

// hear hears commands within a round, which may take longer than they wait for an answer. Their drops are accepted later, see [asks.accept].
func (r *Resolver) hear(ctx context.Context) error {
	for {
		select {
		case a := <-r.asked:
			r.asks.take(a)
		default:
			return r.answer(ctx, Accepted)
		}
	}
}

// drop drops the letters that commands ask for, and reports whether there were any. Of a key all that were chosen are dropped, or none while
// one of them is being written; the newest goes first, so that whatever ends the relay meanwhile, the first one still holds the others.
func (r *Resolver) drop(ctx context.Context) (bool, error) {
	var letters []Resolution
	unready := map[string]bool{} // keys
	for id := range r.asks.toDrop() {
		w, is, found := r.index.letter(id)
		switch {
		case found && is == writing:
			unready[w.Hold] = w.Hold != ""
		case found:
			letters = append(letters, Resolution{Work: w})
		}
	}
	letters = slices.DeleteFunc(letters, func(l Resolution) bool { return unready[l.Hold] })
	slices.SortFunc(letters, func(a, b Resolution) int { return b.Order.Compare(a.Order) })
	for chunk := range slices.Chunk(letters, r.round) {
		if err := r.resolve(ctx, Drop, chunk); err != nil {
			return false, err
		}
		for i := range chunk {
			l := &chunk[i]
			r.log.Info("dead letter dropped, as asked", eventAttr(l.ID, l.Hold, nil), slog.String("letter", l.ID))
		}
	}
	return len(letters) > 0, nil
}

// eventAttr names a letter's event in a log line. Without a message its topic is only in the letter.
func eventAttr(id, hold string, m *cdc.Message) slog.Attr {
	if m != nil {
		return cdc.EventAttr(m.EventID(), m.Key, m.Topic)
	}
	event := id[:max(0, strings.LastIndexByte(id, '@'))]
	_, key, _ := strings.Cut(hold, "\x00")
	return cdc.EventAttr(event, []byte(key), "")
}
