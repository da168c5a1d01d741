package backfill

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
)

// Repair is a source of the relay. It implements relay.Source.
type Repair struct {
	feed

	db     Database
	opts   Options
	log    *slog.Logger
	ground Ground
	gap    gap
	since  time.Time // when Acquire began to find that another one leads; zero: it does not

	rows atomic.Int64
	// leftOut is how many of the rows are not to be published.
	leftOut atomic.Int64
}

// NewRepair returns a Repair that has not connected yet.
func NewRepair(db Database, o Options, log *slog.Logger) *Repair {
	return &Repair{feed: newFeed(), db: db, opts: o, log: log}
}

// Result is what was read.
type Result struct {
	Rows int64
	// LeftOut is how many more rows were read that the configuration leaves out.
	LeftOut int64
	// Gone is how many rows were picked and not found when they were read.
	Gone     int64
	Position cdc.Position
}

// Result returns what was read so far.
func (s *Repair) Result() Result {
	out := s.leftOut.Load()
	read := s.rows.Load()
	return Result{read - out, out, max(0, s.ground.picked-read), s.ground.Next.Position}
}

// LeftOut counts rows that are not to be published.
func (s *Repair) LeftOut(_ string, rows int) { s.leftOut.Add(int64(rows)) }

// leaderWait is longer than a server takes to notice that the machine of a relay is gone: 10 seconds.
const leaderWait = 15 * time.Second

// Acquire implements relay.Source. The relay claims the position that was stored before.
func (s *Repair) Acquire(ctx context.Context, load cdc.Resumer) (cdc.Source, cdc.Position, error) {
	g, err := s.db.Lead(ctx, load)
	switch {
	case !errors.Is(err, cdc.ErrStandby):
		s.since = time.Time{}
	case s.since.IsZero():
		s.since = time.Now()
	case time.Since(s.since) > leaderWait:
		err = cdc.Stop(cdc.ClassRuntime, "relay_runs", fmt.Errorf("a relay, or another repair, runs (%w)", err), "stop it first, or wait for its end, then try again")
	}
	if err != nil {
		s.db.Close(ctx)
		return cdc.Source{}, "", err
	}
	s.ground = g
	s.rows.Store(0)
	s.leftOut.Store(0)
	if s.gap, err = s.opts.plan(ctx, &s.ground); err == nil {
		err = s.orderly(ctx)
	}
	if err != nil {
		if stop, ok := errors.AsType[*cdc.StopError](err); ok && stop.Reason == Intact {
			if failed := s.db.Finish(ctx); failed != nil { // an earlier repair may have ended before it was done with that
				err = failed
			}
		} else if ok && (stop.Reason == gapUnknown || stop.Class == cdc.ClassConfig) {
			err = errors.Join(err, s.db.Abandon(ctx))
		}
		s.db.Close(ctx)
		return cdc.Source{}, "", err
	}
	return s.Identity(0), g.Stored.Progress.Position, nil
}

// orderly returns an error if a row of the gap has no place in the order.
func (s *Repair) orderly(ctx context.Context) error {
	for _, t := range s.ground.Tables {
		if err := t.Orderly(ctx, s.gap.filter); err != nil {
			return err
		}
	}
	return nil
}

// Release implements relay.Source.
func (s *Repair) Release(ctx context.Context) {
	s.db.Close(ctx)
	s.rewind()
}

// Progress implements relay.Source.
func (s *Repair) Progress(seq uint64) cdc.Progress {
	if s.ended(seq) {
		p := s.ground.Next
		p.Backfill = s.opts.Where
		return p
	}
	return s.Claimed(s.ground.Stored).Progress
}

// Claimed implements relay.Adopting. Where no position is stored it says in what is stored that rows from before it are published, so that
// no run begins before the end, and with a condition that the same command, when it is run again, knows whether it has ended.
func (s *Repair) Claimed(c cdc.Checkpoint) cdc.Checkpoint {
	switch {
	case s.opts.Where != "":
		c.Progress.Backfill = s.opts.Where
	case s.opts.All && c.Progress.Position == "":
		c.Progress.Backfill = cdc.EveryRow
	}
	if s.opts.Where != "" || !s.gap.filter.From.IsZero() { // rows that it leaves out may be pending
		c.Settled = ""
	}
	return c
}

// Identity implements relay.Adopting. Until everything is published, timeline and fingerprint are those of what is stored: they may be all
// that tells a run, and the next repair, that something is missing.
func (s *Repair) Identity(seq uint64) cdc.Source {
	id, was := s.ground.Source, s.ground.Stored.Source
	if s.ground.Found && was.Same(id) && !s.ended(seq) {
		return was
	}
	return id
}

// Run implements relay.Source. An error ends the repair, because the snapshot is lost with the connection.
func (s *Repair) Run(ctx context.Context, q cdc.Queue) error {
	return s.leave(ctx, s.publish(ctx, q), func(err error) error {
		return cdc.Stop(cdc.ClassRuntime, "repair_interrupted", fmt.Errorf("repair ended early: %w", err), s.again(err))
	})
}

// again says how to go on, behind what an error says itself.
func (s *Repair) again(err error) string {
	fix := "run the same command again: it begins again, and repeats what was published"
	if s.opts.Where != "" {
		fix = "run the same setup again: it begins again, and repeats what was committed to Kafka"
	}
	if own := cdc.Fix(err); own != "" {
		return own + "; then " + fix
	}
	return fix
}

// empty reports whether a table had no rows when the repair began: what was written since is behind the position.
func (s *Repair) empty(table int) bool {
	return len(s.ground.Ends) > 0 && s.ground.Ends[table] == ""
}

func (s *Repair) publish(ctx context.Context, q cdc.Queue) error {
	s.log.Info("reading", "what", s.gap.text)
	began := time.Now()
	total, filters := int64(0), make([]tableread.Filter, len(s.ground.Tables))
	for i, t := range s.ground.Tables {
		filters[i] = s.gap.filter
		if len(s.ground.Ends) > 0 {
			filters[i].Last = s.ground.Ends[i]
		}
		if s.empty(i) {
			continue
		}
		n, err := t.Count(ctx, filters[i])
		if err != nil {
			return err
		}
		total += n
	}
	pace := display.NewPace(total, 0)
	for i, t := range s.ground.Tables {
		if s.empty(i) {
			continue
		}
		tied := func() {
			s.log.Warn("rows of a transaction, or of a second, may change places: they have the same time, and their IDs do not grow", "table", t.Name(), "column", t.Order(),
				"fix", "name a column that grows with each INSERT in tables[].order_by")
		}
		err := tableread.Each(ctx, t, filters[i], tableread.Key{}, tied, func(b *cdc.Batch, _ tableread.Key) error {
			if far, due := pace.Tell(s.rows.Load()); due {
				s.log.Info("publishing", "progress", far)
			}
			if b == nil {
				return nil
			}
			rows := int64(b.Rows())
			if err := s.hand(ctx, q, b); err != nil {
				return err
			}
			s.rows.Add(rows)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := s.finish(ctx, q); err != nil {
		return err
	}
	if err := s.db.Finish(ctx); err != nil { // a run can continue from the new position
		return err
	}
	rows := s.rows.Load()
	s.log.Info("read", "rows", rows, "rows_per_second", int64(float64(rows)/max(time.Since(began).Seconds(), 1e-3)))
	return nil
}
