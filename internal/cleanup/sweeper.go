package cleanup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Rows are the rows of a table that are deleted once they are old, or marked while they are pending, and not before their events are published.
type Rows interface {
	Name() string
	// Action says what is done with them.
	Action() *cdc.RowAction
	// Verify returns an error if rows cannot be deleted or marked by their key, or by this role. It precedes the others.
	Verify(ctx context.Context) error
	// Due returns the keys of committed rows that are old or pending, at most limit and in any order, and a position of the WAL or binlog
	// behind the transactions that wrote them: it is read after the rows. Rows without a key are left out.
	Due(ctx context.Context, limit int) (keys []cdc.RowKey, behind cdc.Position, err error)
	// Passed reports whether the relay has saved a position that is behind a position or equal to it.
	Passed(ctx context.Context, behind cdc.Position) (bool, error)
	// Act deletes or marks the rows of these keys that are still due, in one transaction, and returns how many. Locked rows are not marked,
	// and dead marks rows as dead letters. An error that wraps [cdc.ErrHeld] says that the database keeps one or more of the rows.
	Act(ctx context.Context, keys []cdc.RowKey, dead bool) (int, error)
}

// Tables connects to the database and returns its tables. load returns the position that the relay has saved. The caller closes the
// connection.
type Tables func(ctx context.Context, load cdc.Loader) (tables []Rows, closeAll func(), err error)

// Each connects and calls fn with each table, until one returns an error.
func (open Tables) Each(ctx context.Context, load cdc.Loader, fn func(Rows) error) error {
	tables, closeAll, err := open(ctx, load)
	if err != nil {
		return err
	}
	defer closeAll()
	for _, t := range tables {
		if err := fn(t); err != nil {
			return err
		}
	}
	return nil
}

// Sweeper deletes old rows, or marks published ones. [NewDeletes] and [NewMarks] make it.
type Sweeper struct {
	open Tables
	log  *slog.Logger
	// failed is what is said before an error.
	failed string
	// every is the time between two connections. One lasts until no row is old, or for as long as a table can be marked.
	every time.Duration
	// tick is how often the saved position is looked at.
	tick time.Duration
	// patience is how long rows wait for the position before they are read again, twice as long each time until one has passed: the relay may
	// lag, and on MySQL the position may have a GTID that was rolled back and is never passed.
	patience time.Duration
	// limit is how many rows are read at once. No more are read while maxWaiting or more wait for the position.
	limit, maxWaiting int
	// batch is how many of so many rows are deleted or marked in one transaction, and pause the time after it, in which writers go on.
	batch func(rows int) int
	pause time.Duration
	// counted counts the rows by table, and errors what failed.
	counted *prometheus.CounterVec
	errors  prometheus.Counter

	deletes *DeleteOptions // nil: rows are marked
	marks   *marks         // nil: rows are deleted
}

// Run sweeps until ctx ends. What cannot be done is logged, and done later: it never ends the relay.
func (s *Sweeper) Run(ctx context.Context, kept cdc.Kept) {
	known := map[string]*marking{}
	for {
		if err := s.connected(ctx, kept, known); err != nil && ctx.Err() == nil {
			s.report([]error{err})
		}
		if cdc.Sleep(ctx, s.every) != nil {
			return
		}
	}
}

// Once deletes until no row is old.
func (s *Sweeper) Once(ctx context.Context) error { return s.connected(ctx, nil, nil) }

// connected sweeps the tables until nothing can be done: no row is old, or an error keeps each table from being swept.
func (s *Sweeper) connected(ctx context.Context, kept cdc.Kept, known map[string]*marking) error {
	load := func(context.Context) (cdc.Checkpoint, bool, error) { return kept.Saved(), true, nil }
	if s.deletes != nil { // by the stored position, since a command deletes without a leader
		load = s.deletes.Load
	}
	tables, closeAll, err := s.open(ctx, load)
	if err != nil {
		s.errors.Inc()
		return fmt.Errorf("%s: %w", s.failed, err)
	}
	defer closeAll()
	all := make([]*sweep, len(tables))
	for i, t := range tables {
		all[i] = s.newSweep(t, s.marks.of(t.Action(), kept, known))
	}
	for {
		looked, ended := false, true
		for _, one := range all {
			looked = one.step(ctx) || looked
			ended = ended && (one.done || one.why != nil)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case ended:
			return errors.Join(s.problems(all)...)
		case looked && s.marks != nil:
			s.report(s.problems(all))
		}
		if err := cdc.Sleep(ctx, s.tick); err != nil {
			return err
		}
	}
}

// problems are what keeps rows from being deleted or marked, at present.
func (s *Sweeper) problems(all []*sweep) (problems []error) {
	for _, one := range all {
		for _, err := range one.problems() {
			problems = append(problems, fmt.Errorf("%s: %w", s.failed, err))
		}
	}
	return problems
}

// report says what is not done, until the next report.
func (s *Sweeper) report(found []error) {
	var problems []cdc.Problem
	for _, err := range found {
		problems = append(problems, cdc.Problem{With: cdc.OnRows, Err: err})
		if s.marks == nil {
			s.log.Warn("old rows left as they are", cdc.Repeats(), slog.Any("error", err))
		}
	}
	if s.marks != nil {
		s.marks.Problems.Report("write-back", problems...)
	}
}
