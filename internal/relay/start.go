package relay

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// start waits until this relay leads and its sink is open.
func (r *Relay) start(ctx context.Context) error {
	if err := r.await(ctx, r.lead); err != nil {
		return err
	}
	if !r.exactlyOnce() { // otherwise lead has opened it
		if err := r.await(ctx, r.open); err != nil {
			return err
		}
	}
	r.health.set(StateLeading, nil)
	return nil
}

const (
	// standbyPause is between two attempts of a standby, in each of which it waits for its turn.
	standbyPause = 100 * time.Millisecond
	// startInterval is the longest pause between two attempts of a start.
	startInterval = 5 * time.Second
)

// await retries a step of the start: for up to StartupTimeout while a server is away, and without limit while another
// relay leads. It returns at once on an error that waiting cannot fix.
func (r *Relay) await(ctx context.Context, step func(context.Context) error) error {
	away := r.newOutage()
	for {
		err := step(ctx)
		switch {
		case err == nil:
			r.works()
			return nil
		case ctx.Err() != nil:
			return ctx.Err() // err only says that the step was interrupted
		case stopError(err) != nil:
			return stopError(err)
		}
		pause := standbyPause
		if errors.Is(err, cdc.ErrStandby) {
			r.standBy(err)
			away = r.newOutage()
		} else if pause, err = away.next(err); err != nil {
			return err
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// works notes that a step of the start has succeeded.
func (r *Relay) works() {
	r.opts.Problems.Report(startReporter)
	r.opts.Problems.Report(streamReporter)
	r.health.recovered()
}

func (r *Relay) standBy(reason error) {
	r.rewinds = rewinds{} // a takeover, by a relay on the same database
	r.opts.Problems.Clear()
	if r.health.set(StateStandby, nil) {
		r.log.Info("standing by", "reason", reason.Error())
	}
}

// outage is a time in which a server is away.
type outage struct {
	relay  *Relay
	retry  *pauses
	since  time.Time
	logged time.Duration // how long it had lasted when it was logged last
}

func (r *Relay) newOutage() *outage {
	o := &outage{relay: r, retry: r.pauses(), since: time.Now()}
	o.retry.longest = min(o.retry.longest, startInterval)
	return o
}

// next returns the pause before the next attempt, or the error that ends the start. It logs err at growing intervals.
func (o *outage) next(err error) (time.Duration, error) {
	pause, timeout, lasted := o.retry.next(), o.relay.opts.StartupTimeout, time.Since(o.since)
	if o.relay.rewound {
		timeout = 0
	}
	if timeout > 0 && lasted+pause > timeout {
		return 0, cdc.Stop(cdc.ClassRuntime, "startup_timeout", fmt.Errorf("gave up waiting after %s (startup_timeout): %w", timeout, err), "")
	}
	o.relay.health.set(StateStarting, err)
	o.relay.opts.Problems.Report(startReporter, cdc.Problem{With: cdc.DependencyOf(err), Err: err})
	if o.logged == 0 || lasted >= 2*o.logged {
		o.logged = max(lasted, startInterval)
		o.relay.log.Warn("waiting for a server", "error", err, "for", lasted.Round(time.Second).String(), "startup_timeout", timeout.String())
	}
	return pause, nil
}

// lead makes this relay the leader, if no other relay leads, and claims the checkpoint.
func (r *Relay) lead(ctx context.Context) error {
	var loaded, resumed cdc.Checkpoint
	id, from, err := r.Source.Acquire(ctx, func(ctx context.Context, id cdc.Source) (_ cdc.Checkpoint, found bool, err error) {
		loaded, found, err = r.Checkpointer.Load(ctx)
		resumed, err = loaded, cdc.About(cdc.OnCheckpoint, err)
		if err == nil || r.copyAway(err) {
			resumed, found, err = r.resume(ctx, id, loaded, found, err)
		}
		return resumed, found, err
	})
	if err != nil {
		return err
	}
	if err = r.claim(ctx, id, from, resumed, loaded); err != nil {
		r.Source.Release(ctx)
	}
	return err
}

// claim starts a new generation of the checkpoint. The store then rejects saves of an earlier leader, and rejects the
// claim if an earlier leader has saved after the load: otherwise the position would move back. The clock makes the
// generation higher than that of a frozen leader also where the store has lost the checkpoint, or holds an older one.
//
// Exactly-once delivery commits the claim to Kafka first, so that the checkpoint's generation is never above that in Kafka. Its
// copy may wait, but not where it replaces the checkpoint of at-least-once delivery.
func (r *Relay) claim(ctx context.Context, id cdc.Source, from cdc.Position, resumed, loaded cdc.Checkpoint) error {
	c := resumed
	if from != c.Progress.Position {
		c.Progress.Position, c.Progress.Part = from, cdc.Part{}
	}
	c.Source, c.SavedAt, c.ExactlyOnce, c.PositionTopic = id, time.Now(), r.exactlyOnce(), r.opts.PositionTopic
	c.Generation, c.Sequence = max(loaded.Generation+1, resumed.Generation+1, uint64(c.SavedAt.UnixMilli())), 0
	if c.Fence == "" || r.exactlyOnce() {
		c.Fence = r.fence(id, "")
	}
	if r.exactlyOnce() {
		if err := r.loadLetters(ctx, &c); err != nil {
			return err
		}
		if err := r.Committer.Commit(ctx, c); err != nil {
			return cdc.About(cdc.OnKafka, fmt.Errorf("commit the position: %w", err))
		}
	}
	if loaded.Source != (cdc.Source{}) && !loaded.Source.Same(resumed.Source) { // a claim replaces another source's only to continue from it
		loaded = cdc.Checkpoint{}
	}
	copied := loaded.ExactlyOnce || loaded.Source == cdc.Source{}
	switch err := r.Checkpointer.Claim(ctx, c, loaded); {
	case err == nil:
	case copied && r.copyAway(err):
		r.log.Warn("checkpoint not claimed; the position in Kafka is", "error", err)
	default:
		return cdc.About(cdc.OnCheckpoint, fmt.Errorf("claim checkpoint: %w", err))
	}
	r.source.Store(&id)
	r.checkpoint.Store(&c)
	r.health.origin(from)
	attrs := []any{"database", id.Database, "from", r.opts.Display(from), "generation", c.Generation}
	if id.Slot != "" {
		attrs = append(attrs, "slot", id.Slot)
	}
	r.log.Info("leading", attrs...)
	return nil
}

// fence returns the sink's transactional ID for a WAL or binlog. It must be unique. Where the source is not, a random part
// makes it so, which is stored with the checkpoint, and lost with it.
func (r *Relay) fence(id cdc.Source, stored string) string {
	switch {
	case r.opts.TransactionalID != "":
		return r.opts.TransactionalID
	case id.Slot != "", r.opts.UniqueSource:
		return Fence(id)
	case stored != "":
		return stored
	default:
		return Fence(id) + "." + strings.ToLower(rand.Text())
	}
}

// Fence is the transactional ID of a source that no other database has: on PostgreSQL the system identifier makes it
// so, on MySQL and MariaDB the configured ID.
func Fence(id cdc.Source) string {
	parts := []string{"cdc-relay", id.SystemID, id.Database}
	if id.Slot != "" {
		parts = append(parts, id.Slot)
	}
	return strings.Join(parts, ".")
}

// open opens the sink under its fence. A stored one that is another, because of a change of the configuration, is replaced,
// once its last holder is fenced too.
//
// The claim is saved again before and after: a relay that was superseded while it waited must not fence its successor,
// and must not publish under a fence that is newer than its successor's.
func (r *Relay) open(ctx context.Context) error {
	c := *r.checkpoint.Load()
	if err := r.Checkpointer.Save(ctx, c); err != nil {
		return cdc.About(cdc.OnCheckpoint, err)
	}
	var replaced []string
	current := r.fence(c.Source, c.Fence)
	if c.Fence != current {
		replaced = []string{c.Fence}
	}
	if err := r.Sink.Open(ctx, current, replaced...); err != nil {
		return cdc.About(cdc.OnKafka, err)
	}
	if err := r.Checkpointer.Save(ctx, c); err != nil {
		return cdc.About(cdc.OnCheckpoint, err)
	}
	c.Fence = current
	r.checkpoint.Store(&c)
	return r.loadLetters(ctx, &c)
}
