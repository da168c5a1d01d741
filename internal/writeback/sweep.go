package writeback

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/display"
)

const (
	// limit is how many rows are read at once.
	limit = 20_000
	// A batch is marked in one transaction: a part of what was read, since a larger one holds writers and the relay's reader up for longer,
	// and smaller ones take longer in all. step is the pause between two, in which they go on.
	batches, smallest = 16, 100
	step              = 5 * time.Millisecond
	// maxUnproven is how many rows can be told from others.
	maxUnproven = 100_000
	// pollPassed is how often the saved position is looked at, and longestAwait how long, before rows are read again.
	pollPassed   = 100 * time.Millisecond
	longestAwait = time.Minute
	// maxFailures is how many errors of marks may be met in one pass.
	maxFailures = 100
)

// proof is what is known of the rows of a table that are pending. It begins anew with each attempt to lead: a position may have been moved
// in between.
type proof struct {
	condition string
	// settled: each of them was published, or comes behind the position. Otherwise those that are unproven may not have been.
	settled  bool
	unproven map[string]struct{} // nil: not read yet, or too many
	letters  int                 // dead letters at the last look
}

// sweep is one pass over a table.
type sweep struct {
	*Marker

	table Table
	proof *proof
	kept  Kept
	read  time.Duration // of pending rows

	failures int // of marks
}

// run marks pending rows until there are none but those that are to stay.
func (s *sweep) run(ctx context.Context) error {
	began, found := time.Now(), false
	for {
		more, some, err := s.pass(ctx)
		found = found || some
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	if found {
		s.metrics.duration.WithLabelValues(s.table.Name()).Set(time.Since(began).Seconds())
	}
	return nil
}

// pass reads pending rows once and marks them. It reads so many that there are others beside those that are to stay.
func (s *sweep) pass(ctx context.Context) (more, found bool, err error) {
	most := limit + len(s.proof.unproven) + s.proof.letters
	if s.proof.unproven == nil {
		most = maxUnproven + 1
	}
	began := time.Now()
	keys, behind, err := s.table.Pending(ctx, most)
	if len(keys) < smallest { // it took that long to find out that there is next to nothing
		s.read = max(s.read, time.Since(began))
	}
	if err != nil {
		return false, false, err
	}
	s.prove(keys, len(keys) < most)
	if keys = s.proven(keys); len(keys) == 0 {
		return false, false, nil
	}
	if passed, err := s.await(ctx, behind); err != nil || !passed {
		return err == nil, false, err
	}
	marked, err := s.mark(ctx, keys)
	return err == nil && len(keys) >= limit && marked > 0, true, err
}

// prove finds out whether the condition is settled. all is whether no other rows are pending.
func (s *sweep) prove(keys []cdc.RowKey, all bool) {
	p := s.proof
	if p.settled {
		return
	}
	before := p.unproven
	switch {
	case before == nil && slices.Contains(strings.Fields(s.kept.Saved().Settled), p.condition):
		p.settled = true
		p.unproven = map[string]struct{}{}
		return
	case !all: // too many at first, or not read whole
		return
	}
	still := map[string]struct{}{}
	for _, k := range keys {
		if _, ok := before[k.ID]; ok || before == nil {
			still[k.ID] = struct{}{}
		}
	}
	p.unproven = still
	if len(still) == 0 {
		p.settled = true
		s.kept.Settle(p.condition)
	}
}

// proven leaves out what is unproven.
func (s *sweep) proven(keys []cdc.RowKey) []cdc.RowKey {
	if s.proof.unproven == nil {
		return nil
	}
	return slices.DeleteFunc(keys, func(k cdc.RowKey) bool {
		_, ok := s.proof.unproven[k.ID]
		return ok
	})
}

// await waits until the relay has saved a position behind the rows that were read, but not for ever: that position may have a transaction
// that was rolled back.
func (s *sweep) await(ctx context.Context, behind cdc.Position) (passed bool, err error) {
	for began := time.Now(); time.Since(began) < longestAwait; {
		if passed, err := s.table.Passed(ctx, behind); err != nil || passed {
			return passed, err
		}
		if err := sleep(ctx, pollPassed); err != nil {
			return false, err
		}
	}
	return false, nil
}

// mark marks rows whose events are published or dead letters. The letters are asked for now: each event became one before a position
// behind it was saved.
func (s *sweep) mark(ctx context.Context, keys []cdc.RowKey) (total int, err error) {
	name := s.table.Name()
	letters := s.opts.Letters(name)
	s.proof.letters = len(letters)
	var published, dead []cdc.RowKey
	for _, k := range keys {
		if letters.Has(k.ID) {
			dead = append(dead, k)
		} else {
			published = append(published, k)
		}
	}
	if !s.opts.OnDeadLetter[name] {
		dead = nil
	}
	s.failures = 0
	for _, of := range []struct {
		keys []cdc.RowKey
		dead bool
	}{{published, false}, {dead, true}} {
		for some := range slices.Chunk(of.keys, max(smallest, len(of.keys)/batches)) {
			n, failed := s.markBatch(ctx, some, of.dead)
			total, err = total+n, cmp.Or(err, failed)
			if sleep(ctx, step) != nil || s.failures >= maxFailures {
				return total, cmp.Or(err, ctx.Err())
			}
		}
	}
	return total, err
}

// markBatch marks rows together. If one of them cannot be marked, as because of a constraint, it looks for that one, and marks the others.
func (s *sweep) markBatch(ctx context.Context, keys []cdc.RowKey, dead bool) (int, error) {
	n, err := s.table.Mark(ctx, keys, dead)
	s.metrics.marked.WithLabelValues(s.table.Name()).Add(float64(n))
	if err == nil {
		return n, nil
	}
	s.failures++
	switch {
	case errors.Is(err, cdc.ErrBusy) || s.failures >= maxFailures || ctx.Err() != nil:
		return n, err
	case len(keys) == 1:
		return n, fmt.Errorf("row of event %s: %w", keys[0].ID, err)
	}
	left, err := s.markBatch(ctx, keys[:len(keys)/2], dead)
	right, failed := s.markBatch(ctx, keys[len(keys)/2:], dead)
	return left + right, cmp.Or(err, failed)
}

// unproven is the error that says which rows are left alone; nil: none.
func (s *sweep) unproven() error {
	const fix = "publish those that were not, set the status of all of them by hand, and the next ones are marked as all others"
	p, name, gauge := s.proof, s.table.Name(), s.metrics.unproven.WithLabelValues(s.table.Name())
	if p.unproven == nil {
		gauge.Set(maxUnproven + 1)
		return cdc.Fixable(fix, "table %s: no row is marked: more than %d were pending when this relay began to lead, and nothing tells whether they were published", name, maxUnproven)
	}
	gauge.Set(float64(len(p.unproven)))
	if len(p.unproven) == 0 {
		return nil
	}
	return cdc.Fixable(fix, "table %s: %s left as found, that of event %s among them: pending when this relay began to lead, and nothing tells whether they were published",
		name, display.Plural(len(p.unproven), "row"), slices.Min(slices.Collect(maps.Keys(p.unproven))))
}
