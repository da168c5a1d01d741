package relay

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
)

// start waits until this relay leads and its sink is open.
func (a *attempt) start(ctx context.Context) error {
	if err := a.await(ctx, a.lead); err != nil {
		return err
	}
	if a.Status().State == StateStandby {
		a.metrics.takeovers.Inc()
		a.again = true
	}
	if err := a.await(ctx, a.keeper.open); err != nil {
		return err
	}
	a.health.set(StateLeading, nil)
	return nil
}

const (
	// standbyPause is before a standby tries again to lead: each time it waits for its turn.
	standbyPause = 100 * time.Millisecond
	// startInterval is the longest pause before a step of the start is tried again.
	startInterval = 5 * time.Second
)

// await retries a step of the start: for up to StartupTimeout while a server is away, and without limit once another
// relay has led. It returns at once on an error that waiting cannot fix; for a relay that stands by those of configuration are none.
func (a *attempt) await(ctx context.Context, step func(context.Context) error) error {
	away := a.newOutage()
	for {
		err := step(ctx)
		switch {
		case err == nil:
			a.noteStarted()
			return nil
		case ctx.Err() != nil:
			return ctx.Err() // err only says that the step was interrupted
		case stopError(err) != nil && (!away.standby || cdc.ClassOf(err) != cdc.ClassConfig):
			return stopError(err)
		}
		pause := standbyPause
		if errors.Is(err, cdc.ErrStandby) {
			a.standBy(err)
			away = a.newOutage()
			away.standby = true
		} else if pause, err = away.next(err); err != nil {
			return err
		}
		if err := cdc.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// noteStarted notes that a step of the start has succeeded.
func (a *attempt) noteStarted() {
	a.opts.Problems.Report(startReporter)
	a.opts.Problems.Report(streamReporter)
	a.health.update(func(s *Status) { s.Cause = nil })
}

func (a *attempt) standBy(reason error) {
	a.rewinds = rewinds{}                 // a takeover, by a relay on the same database
	a.opts.Problems.Report(startReporter) // first: what was logged is over
	a.opts.Problems.Report(streamReporter)
	a.opts.Problems.Clear()
	if a.health.standBy(reason) {
		a.log.Info("standing by", "reason", reason.Error())
	}
}

// outage is a time in which a server is away.
type outage struct {
	attempt *attempt
	retry   *pauses
	since   time.Time
	standby bool // it has stood by, and goes on
}

func (a *attempt) newOutage() *outage {
	o := &outage{attempt: a, retry: a.pauses(), since: time.Now()}
	o.retry.longest = min(o.retry.longest, startInterval)
	return o
}

// next returns the pause before the step is tried again, or the error that ends the start.
func (o *outage) next(err error) (time.Duration, error) {
	pause, timeout, lasted := o.retry.next(), o.attempt.opts.StartupTimeout, time.Since(o.since)
	if o.attempt.again || o.standby { // the leader waits for as long
		timeout = 0
	}
	if timeout > 0 && lasted+pause > timeout {
		return 0, cdc.Stop(cdc.ClassRuntime, "startup_timeout", fmt.Errorf("gave up waiting after %s (startup_timeout): %w", timeout, err), "")
	}
	if !o.standby {
		o.attempt.health.set(StateStarting, err)
	}
	o.attempt.opts.Problems.Report(startReporter, cdc.Problem{With: cdc.DependencyOf(err), Err: err})
	return pause, nil
}

// lead makes this relay the leader, if no other relay leads, and claims the checkpoint.
func (a *attempt) lead(ctx context.Context) error {
	var loaded, resumed cdc.Checkpoint
	id, from, err := a.Source.Acquire(ctx, func(ctx context.Context, id cdc.Source) (_ cdc.Checkpoint, found bool, err error) {
		loaded, found, err = a.Checkpointer.Load(ctx)
		resumed, found, err = a.keeper.resume(ctx, id, loaded, found, cdc.About(cdc.OnCheckpoint, err))
		return resumed, found, err
	})
	if err != nil {
		return err
	}
	if err = a.claim(ctx, id, from, resumed, loaded); err != nil {
		a.Source.Release(ctx)
	}
	return err
}

// claim starts a new generation of the checkpoint. The store then rejects saves of an earlier leader, and rejects the
// claim if an earlier leader has saved after the load: otherwise the position would move back. The clock makes the
// generation higher than that of a frozen leader also where the store has lost the checkpoint, or holds an older one.
func (a *attempt) claim(ctx context.Context, id cdc.Source, from cdc.Position, resumed, loaded cdc.Checkpoint) error {
	c := resumed
	if from != c.Progress.Position {
		c.Progress.Position, c.Progress.Part = from, cdc.Part{}
		c.Settled = "" // what is between the two may never be published
	}
	if id.Fingerprint != c.Source.Fingerprint { // rows of a table that is new may come from before, and tell of no other history
		c.Progress.Commit, c.Progress.TxID = "", ""
	}
	c.Settled = stillSettled(c.Settled, a.opts.Conditions)
	c.Source, c.SavedAt = id, time.Now()
	if source, ok := a.Source.(Adopting); ok {
		if !resumed.SavedAt.IsZero() {
			c.SavedAt = resumed.SavedAt // see durable
		}
		c = source.Claimed(c)
	}
	c.Generation, c.Sequence = max(loaded.Generation+1, resumed.Generation+1, uint64(time.Now().UnixMilli())), 0
	if loaded.Source != (cdc.Source{}) && !loaded.Source.Same(resumed.Source) { // a claim replaces another source's only to continue from it
		loaded = cdc.Checkpoint{}
	}
	c, err := a.keeper.claim(ctx, c, loaded)
	if err != nil {
		return err
	}
	a.sourceID.Store(&id)
	a.checkpoint.Store(&c)
	attrs := []any{"database", id.Database, "from", a.opts.Display(from), "generation", c.Generation}
	if id.Slot != "" {
		attrs = append(attrs, "slot", id.Slot)
	}
	a.log.Info("leading", attrs...)
	return nil
}

// stillSettled leaves out conditions that are not configured: until one is again, events may be dropped or left out, or the table not be
// read.
func stillSettled(names string, conditions []string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(names), func(name string) bool { return !slices.Contains(conditions, name) }), " ")
}

// fence returns the sink's transactional ID for a WAL or binlog. It must be unique. Where the source is not, a random part
// makes it so, which is stored with the checkpoint, and lost with it.
func (r *Relay) fence(id cdc.Source, stored string) string {
	switch {
	case r.opts.TransactionalID != "":
		return r.opts.TransactionalID
	case id.Slot != "", r.opts.UniqueSource:
		return checkpoint.Fence(id)
	case stored != "":
		return stored
	default:
		return checkpoint.Fence(id) + "." + strings.ToLower(rand.Text())
	}
}
