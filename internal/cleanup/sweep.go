package cleanup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/display"
)

const (
	// retryAfter is how long a table, or a row that is to be marked, is left alone after an error.
	retryAfter = time.Minute
	// readPause is between two reads. It is longer where a read is slow that finds few rows, as without an index: slowdown times as long as that.
	readPause = 500 * time.Millisecond
	slowdown  = 10
	few       = 100
	// shrink divides the size of a batch in which the database keeps a row. The size doubles with each batch that goes, so that each row is
	// tried a few times at most, however many are kept.
	shrink = 4
	// maxFailures is how many transactions of a group may fail. A row of which the database says that it keeps it does not count.
	maxFailures = 100
	// maxRefused is how many rows are stepped over.
	maxRefused = 100_000
)

// sweep is a table while the connection lasts. Rows that were read wait for the position; others are read meanwhile:
//
//	due ──read──► found, with a position behind them ──saved──► deleted or marked, or left for the next read
type sweep struct {
	*Sweeper

	rows       Rows
	marking    *marking // nil: rows are deleted
	verified   bool
	why        error                // the table cannot be swept
	next       time.Time            // of the next read, or of the next try if it cannot be
	found      []group              // in the order of their positions
	waiting    map[string]struct{}  // IDs of what is found
	refused    map[string]time.Time // when rows could not be deleted or marked, by ID
	example    string               // one of them, and why it could not be
	exampleWhy error
	busy       error         // a lock, at the last read or transaction
	failures   int           // of transactions in a group, but for rows that the database keeps
	rowsDone   int           // rows of a group that are deleted or marked
	await      time.Duration // how long the next group waits; see patience
	last       bool          // no more rows were due at the last read
	done       bool          // no row is old, or the rest waits for the next connection
}

// group is rows that were read at once.
type group struct {
	keys   []cdc.RowKey
	behind cdc.Position
	at     time.Time
}

func (s *Sweeper) newSweep(t Rows, m *marking) *sweep {
	return &sweep{Sweeper: s, rows: t, marking: m, waiting: map[string]struct{}{}, refused: map[string]time.Time{}, await: s.patience}
}

// step does what is due: it acts on what the position has passed, and reads what is due. looked is whether it did the latter, or failed.
func (s *sweep) step(ctx context.Context) (looked bool) {
	if s.done || s.why != nil && time.Now().Before(s.next) {
		return false
	}
	var err error
	if s.why = nil; !s.verified {
		err = s.rows.Verify(ctx)
		s.verified = err == nil
	}
	if err == nil {
		err = s.finish(ctx)
	}
	if err == nil {
		looked, err = s.look(ctx)
	}
	if err == nil {
		return looked
	}
	s.errors.Inc()
	s.forget()
	s.verified, s.why, s.next = false, err, time.Now().Add(retryAfter)
	return true
}

// forget drops what was read.
func (s *sweep) forget() {
	s.found, s.next = nil, time.Time{}
	clear(s.waiting)
}

// finish acts on the rows that the position has passed.
func (s *sweep) finish(ctx context.Context) error {
	for len(s.found) > 0 {
		g := s.found[0]
		passed, err := s.rows.Passed(ctx, g.behind)
		if passed && s.deletes != nil {
			err = s.deletes.Kept
		}
		switch {
		case err != nil:
			return err
		case s.marking.replaced(): // the position may have passed that just now
			s.forget()
			return nil
		case passed:
			s.await = s.patience
			if err := s.act(ctx, &g); err != nil {
				return err
			}
		case time.Since(g.at) < s.await:
			return nil
		case s.deletes != nil && s.deletes.Patience > 0:
			return errBehind(s.rows)
		default:
			if s.await *= 2; s.deletes != nil {
				s.log.Warn("old rows not deleted yet", "error", errBehind(s.rows))
			}
		}
		s.found = s.found[1:]
		for _, k := range g.keys {
			delete(s.waiting, k.ID)
		}
	}
	return nil
}

// look reads rows that are due. The limit allows for those that are skipped, so that others are found.
func (s *sweep) look(ctx context.Context) (looked bool, err error) {
	if s.done || time.Now().Before(s.next) || len(s.waiting) >= s.maxWaiting {
		return false, nil
	}
	most := s.limit + len(s.waiting)
	if s.marking != nil {
		maps.DeleteFunc(s.refused, func(_ string, at time.Time) bool { return time.Since(at) >= retryAfter })
		most = s.marking.most(most)
	}
	most += len(s.refused)
	began := time.Now()
	keys, behind, err := s.rows.Due(ctx, most)
	switch {
	case errors.Is(err, cdc.ErrBusy):
		s.busy, s.next, s.done = err, time.Now().Add(readPause), s.deletes != nil
		return true, nil
	case err != nil:
		return true, err
	case s.marking.replaced():
		s.forget()
		return true, nil
	}
	s.last = len(keys) < most
	if s.marking != nil {
		keys = s.marking.ready(keys, s.last)
	}
	keys = slices.DeleteFunc(keys, func(k cdc.RowKey) bool {
		_, waits := s.waiting[k.ID]
		_, refused := s.refused[k.ID]
		return waits || refused
	})
	for _, k := range keys {
		s.waiting[k.ID] = struct{}{}
	}
	if len(keys) > 0 {
		read := group{keys, behind, began}
		if s.deletes != nil { // it waits from now on: a read without an index may have taken longer than the patience
			read.at = time.Now()
		}
		s.found = append(s.found, read)
	} else {
		s.busy, s.done = nil, s.deletes != nil
	}
	s.next = time.Now().Add(s.readAgain(len(keys), time.Since(began)))
	return true, nil
}

// readAgain is the pause after a read that found so many rows.
func (s *sweep) readAgain(rows int, took time.Duration) time.Duration {
	switch {
	case rows >= s.limit: // there are more
		return 0
	case rows < few: // it took that long to find out that there is next to nothing
		return max(readPause, slowdown*took)
	}
	return readPause
}

// act deletes or marks rows whose events are published or dead letters. What is left is read again. An error is one of the connection.
func (s *sweep) act(ctx context.Context, g *group) error {
	s.failures, s.rowsDone, s.busy = 0, 0, nil
	refused, published, dead := len(s.refused), g.keys, []cdc.RowKey(nil)
	if s.marking != nil {
		published, dead = s.marking.split(g.keys)
	}
	err := s.batches(ctx, g, published, false)
	if err == nil {
		err = s.batches(ctx, g, dead, true)
	}
	if s.failures >= maxFailures {
		s.next = time.Now().Add(retryAfter)
	}
	if s.deletes != nil {
		if s.rowsDone > 0 {
			s.log.Info("old rows deleted", "table", s.rows.Name(), "rows", s.rowsDone)
		}
		s.done = s.last || s.busy != nil || s.failures >= maxFailures || len(s.refused) >= maxRefused || s.rowsDone == 0 && len(s.refused) == refused
	}
	return err
}

// batches acts on rows together. If the database refuses a batch, as because of a constraint, it tries fewer rows, down to the one that is
// stepped over.
func (s *sweep) batches(ctx context.Context, g *group, keys []cdc.RowKey, dead bool) error {
	most := s.batch(len(keys))
	for size := most; len(keys) > 0 && s.busy == nil && s.failures < maxFailures && len(s.refused) < maxRefused; {
		some := keys[:min(size, len(keys))]
		n, err := s.rows.Act(ctx, some, dead)
		if err != nil && !errors.Is(err, cdc.ErrHeld) && !errors.Is(err, cdc.ErrBusy) {
			if _, broken := s.rows.Passed(ctx, g.behind); broken != nil { // it is not the rows
				return err
			}
		}
		if err != nil {
			s.errors.Inc()
		}
		s.count(n)
		switch {
		case err == nil:
			size = min(2*size, most)
		case errors.Is(err, cdc.ErrBusy): // the next batches would wait for the same lock; the next read finds these rows again
			s.busy = err
			return nil
		default:
			if !errors.Is(err, cdc.ErrHeld) {
				s.failures++
			}
			if len(some) > 1 {
				size = max(1, len(some)/shrink)
				continue
			}
			s.refuse(some[0].ID, err)
		}
		keys = keys[len(some):]
		if err := cdc.Sleep(ctx, s.pause*time.Duration(len(some))/time.Duration(most)); err != nil {
			return err
		}
	}
	return nil
}

// refuse keeps a row from being tried again too soon, and the reason of one such row: there may be many.
func (s *sweep) refuse(id string, why error) {
	if _, ok := s.refused[s.example]; !ok {
		s.example, s.exampleWhy = id, why
	}
	s.refused[id] = time.Now()
}

func (s *sweep) count(n int) {
	if n == 0 {
		return
	}
	s.rowsDone += n
	s.counted.WithLabelValues(s.rows.Name()).Add(float64(n))
}

// problems are what keeps rows from being deleted or marked, at present.
func (s *sweep) problems() (all []error) {
	if s.why != nil {
		return []error{s.why}
	}
	if len(s.refused) > 0 {
		rows := display.Plural(len(s.refused), "row")
		if len(s.refused) >= maxRefused || s.failures >= maxFailures {
			rows += " and those after them"
		}
		all = append(all, fmt.Errorf("%s, that of event %s among them: %w", rows, s.example, s.exampleWhy))
	}
	if s.busy != nil {
		all = append(all, s.busy)
	}
	if s.marking != nil {
		if why := s.marking.problem(); why != nil {
			all = append(all, why)
		}
	}
	return all
}
