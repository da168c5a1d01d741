package cleanup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/display"
)

const (
	// pause is between two reads of pending rows. It is longer where a read is slow that finds nothing, as without an index: slowdown times as
	// long as that. tick is how often the saved position is looked at meanwhile.
	pause    = 500 * time.Millisecond
	slowdown = 10
	tick     = 100 * time.Millisecond
	// limit is how many rows are read at once, and maxWaiting how many may wait for the position.
	limit      = 20_000
	maxWaiting = 100_000
	// A batch is marked in one transaction: a part of what was read, since a larger one holds writers and the relay's reader up for longer,
	// and smaller ones take longer in all. markPause is the pause between two, in which they go on.
	batches, smallest, largest = 16, 100, 1000
	markPause                  = 5 * time.Millisecond
	// maxUnproven limits the unproven IDs that are kept: with more, no row is marked.
	maxUnproven = 100_000
	// ledBegun is when a proof begins, unless another table has taken the place of its table.
	ledBegun = "this relay began to lead"
	// firstAwait is how long rows wait for the position before they are read again, twice as long each time until one has passed: the relay may
	// lag, and on MySQL the position may have a GTID that was rolled back and is never passed.
	firstAwait = time.Minute
	// maxFailures is how many errors of marks may be met in one group.
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
	replaced string              // [cdc.Progress.Replaced] that is taken into account
	begun    string              // since when: the relay leads, or another table is in the place of this one
}

// sweep marks the rows of a table while the connection lasts. Rows that were read wait for the position; others are read meanwhile:
//
//	pending ──read──► found, with a position behind them ──saved──► marked, or left for the next read
type sweep struct {
	*Marker

	table   Marks
	proof   *proof
	kept    cdc.Kept
	next    time.Time           // of the next read
	found   []group             // in the order of their positions
	waiting map[string]struct{} // IDs of what is found
	refused map[string]refusal  // rows that cannot be marked, by ID
	busy    error               // a lock, at the last read or marks
	errors  int                 // of marks in a group
	await   time.Duration       // see firstAwait
}

// group is rows that were read at once.
type group struct {
	keys   []cdc.RowKey
	behind cdc.Position
	at     time.Time
}

// refusal is why a row was not marked, and when.
type refusal struct {
	why error
	at  time.Time
}

func (m *Marker) newSweep(t Marks, p *proof, kept cdc.Kept) *sweep {
	return &sweep{Marker: m, table: t, proof: p, kept: kept, waiting: map[string]struct{}{}, refused: map[string]refusal{}, await: firstAwait}
}

// step does what is due: it marks what the position has passed, and reads what is pending. looked is whether it did the latter. An error says that
// the table cannot be marked at present.
func (s *sweep) step(ctx context.Context) (looked bool, err error) {
	for len(s.found) > 0 {
		g := s.found[0]
		passed, err := s.table.Passed(ctx, g.behind)
		if err != nil {
			return false, err
		}
		switch {
		case s.replaced(): // the position may have passed that just now
			return s.lookIfDue(ctx)
		case passed:
			s.await = firstAwait
			if err := s.mark(ctx, &g); err != nil {
				return false, err
			}
		case time.Since(g.at) < s.await:
			return s.lookIfDue(ctx)
		default:
			s.await *= 2
		}
		s.found = s.found[1:]
		for _, k := range g.keys {
			delete(s.waiting, k.ID)
		}
	}
	return s.lookIfDue(ctx)
}

func (s *sweep) lookIfDue(ctx context.Context) (looked bool, err error) {
	if time.Now().Before(s.next) || len(s.waiting) >= maxWaiting {
		return false, nil
	}
	err = s.look(ctx)
	if errors.Is(err, cdc.ErrBusy) {
		s.busy, s.next, err = err, time.Now().Add(pause), nil
	}
	return true, err
}

// look reads pending rows. The limit allows for those that are skipped, so that others are found.
func (s *sweep) look(ctx context.Context) error {
	for id, r := range s.refused {
		if time.Since(r.at) >= longestPause {
			delete(s.refused, id)
		}
	}
	s.proof.load(s.kept)
	most := limit + len(s.waiting) + len(s.refused) + len(s.proof.unproven) + s.proof.letters
	if s.proof.unproven == nil {
		most = maxUnproven + 1
	}
	began := time.Now()
	keys, behind, err := s.table.Pending(ctx, most)
	if err != nil {
		return err
	}
	took := time.Since(began)
	if s.replaced() {
		return nil
	}
	s.prove(keys, len(keys) < most)
	letters := s.opts.Letters(s.table.Name())
	s.proof.letters = len(letters)
	keys = s.ready(keys, letters)
	switch {
	case len(keys) >= limit: // there are more
		s.next = time.Time{}
	case len(keys) < smallest: // it took that long to find out that there is next to nothing
		s.next = time.Now().Add(max(pause, slowdown*took))
	default:
		s.next = time.Now().Add(pause)
	}
	if len(keys) == 0 {
		s.busy = nil
		return nil
	}
	s.found = append(s.found, group{keys, behind, began})
	for _, k := range keys {
		s.waiting[k.ID] = struct{}{}
	}
	return nil
}

// replaced reports whether another table is in the place of this one since the last call. Then the proof begins anew with what is pending
// in that one, because its rows were not published under its former name.
func (s *sweep) replaced() bool {
	p, all, name := s.proof, s.kept.Saved().Progress.Replaced, s.table.Name()
	if all == p.replaced {
		return false
	}
	times := func(list string) (n int) {
		for line := range strings.Lines(list) {
			if line == name+"\n" {
				n++
			}
		}
		return n
	}
	if times(all) == times(p.replaced) {
		if p.replaced = all; p.settled {
			s.kept.Settle(p.condition)
		}
		return false
	}
	*p = proof{condition: p.condition, replaced: all, begun: "another table took its place"}
	s.found, s.next = nil, time.Time{}
	clear(s.waiting)
	return true
}

// load finds out whether the checkpoint says that the condition is settled.
func (p *proof) load(kept cdc.Kept) {
	if p.unproven == nil && p.begun == ledBegun && slices.Contains(strings.Fields(kept.Saved().Settled), p.condition) {
		p.settled, p.unproven = true, map[string]struct{}{}
	}
}

// prove finds out whether the condition is settled. all is whether no other rows are pending.
func (s *sweep) prove(keys []cdc.RowKey, all bool) {
	p := s.proof
	if p.settled {
		return
	}
	if !all { // too many at first, or not read whole
		return
	}
	before := p.unproven
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

// ready leaves out what is unproven, waits or was refused, and dead letters that are to stay as they are.
func (s *sweep) ready(keys []cdc.RowKey, letters deadletter.Events) []cdc.RowKey {
	if s.proof.unproven == nil {
		return nil
	}
	if s.opts.OnDeadLetter[s.table.Name()] {
		letters = nil
	}
	return slices.DeleteFunc(keys, func(k cdc.RowKey) bool {
		_, unproven := s.proof.unproven[k.ID]
		_, waits := s.waiting[k.ID]
		_, refused := s.refused[k.ID]
		return unproven || waits || refused || letters.Has(k.ID)
	})
}

// mark marks rows whose events are published or dead letters. The letters are asked for now: each event became one before a position
// behind it was saved. What is not marked is read again. An error is one of the connection.
func (s *sweep) mark(ctx context.Context, g *group) error {
	name := s.table.Name()
	letters := s.opts.Letters(name)
	var published, dead []cdc.RowKey
	for _, k := range g.keys {
		if letters.Has(k.ID) {
			dead = append(dead, k)
		} else {
			published = append(published, k)
		}
	}
	if !s.opts.OnDeadLetter[name] {
		dead = nil
	}
	s.errors, s.busy = 0, nil
	for _, of := range []struct {
		keys []cdc.RowKey
		dead bool
	}{{published, false}, {dead, true}} {
		for some := range slices.Chunk(of.keys, min(max(smallest, len(of.keys)/batches), largest)) {
			if err := s.markBatch(ctx, g, some, of.dead); err != nil {
				return err
			}
			if s.busy != nil { // the next batches would wait for the same lock
				return nil
			}
			if s.errors >= maxFailures {
				s.next = time.Now().Add(longestPause)
				return nil
			}
			if err := sleep(ctx, markPause); err != nil {
				return err
			}
		}
	}
	return nil
}

// markBatch marks rows together. If one of them cannot be marked, as because of a constraint, it looks for that one, and marks the others.
func (s *sweep) markBatch(ctx context.Context, g *group, keys []cdc.RowKey, dead bool) error {
	n, err := s.table.Mark(ctx, keys, dead)
	s.metrics.marked.WithLabelValues(s.table.Name()).Add(float64(n))
	if err == nil {
		if n > 0 {
			s.metrics.duration.WithLabelValues(s.table.Name()).Set(time.Since(g.at).Seconds())
		}
		return nil
	}
	if _, broken := s.table.Passed(ctx, g.behind); broken != nil { // it is not the rows
		return err
	}
	s.errors++
	s.metrics.errors.Inc()
	switch {
	case errors.Is(err, cdc.ErrBusy): // the next read finds these rows again
		s.busy = err
	case len(keys) == 1:
		s.refused[keys[0].ID] = refusal{fmt.Errorf("published rows not marked: row of event %s: %w", keys[0].ID, err), time.Now()}
	case s.errors < maxFailures:
		err := s.markBatch(ctx, g, keys[:len(keys)/2], dead)
		if err == nil && s.busy == nil {
			err = s.markBatch(ctx, g, keys[len(keys)/2:], dead)
		}
		return err
	}
	return nil
}

// problems are what keeps rows from being marked, at present.
func (s *sweep) problems() (all []error) {
	if len(s.refused) > 0 {
		all = append(all, s.refused[slices.Min(slices.Collect(maps.Keys(s.refused)))].why)
	}
	if s.busy != nil {
		all = append(all, fmt.Errorf("published rows not marked: %w", s.busy))
	}
	if why := s.unproven(); why != nil {
		all = append(all, why)
	}
	return all
}

// unproven is the error that says which rows are left alone; nil: none.
func (s *sweep) unproven() error {
	const fix = "publish those that were not, set the status of all of them by hand, and the next ones are marked as all others"
	p, name, gauge := s.proof, s.table.Name(), s.metrics.unproven.WithLabelValues(s.table.Name())
	if p.unproven == nil {
		gauge.Set(maxUnproven + 1)
		return cdc.Fixable(fix, "table %s: no row is marked: more than %d were pending when %s, and nothing tells whether they were published", name, maxUnproven, p.begun)
	}
	gauge.Set(float64(len(p.unproven)))
	if len(p.unproven) == 0 {
		return nil
	}
	return cdc.Fixable(fix, "table %s: %s left as found, that of event %s among them: pending when %s, and nothing tells whether they were published",
		name, display.Plural(len(p.unproven), "row"), slices.Min(slices.Collect(maps.Keys(p.unproven))), p.begun)
}
