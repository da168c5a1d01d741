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
	if err := r.await(ctx, r.open); err != nil {
		return err
	}
	r.health.set(StateLeading, nil)
	return nil
}

const (
	// standbyInterval is how often a standby asks for the lead: takeover takes no longer than this and
	// what the database needs to notice that the leader is gone.
	standbyInterval = time.Second
	// startInterval is the longest pause between two attempts of a start: a server that comes up is noticed this soon.
	startInterval = 5 * time.Second
)

// await tries a step of the start again while a server is away, for up to StartupTimeout, and for as long as another
// relay leads. What waiting cannot fix it returns at once.
func (r *Relay) await(ctx context.Context, step func(context.Context) error) error {
	w := r.newWait()
	for {
		err := step(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err() // whatever a step made of being interrupted
		case final(err) != nil:
			return final(err)
		}
		pause := standbyInterval
		if errors.Is(err, cdc.ErrStandby) {
			r.standBy(err)
			w = r.newWait()
		} else if pause, err = w.next(err); err != nil {
			return err
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

func (r *Relay) standBy(reason error) {
	if r.health.set(StateStandby, nil) {
		r.log.Info("standing by", "reason", reason.Error())
	}
}

// wait is a time in which a server is away.
type wait struct {
	relay *Relay
	retry *pauses
	since time.Time
	said  time.Duration // how long it had lasted when it was last logged
}

func (r *Relay) newWait() *wait {
	w := &wait{relay: r, retry: r.pauses(), since: time.Now()}
	w.retry.longest = min(w.retry.longest, startInterval)
	return w
}

// next returns the pause before another attempt, or the error that ends the wait. It says what is awaited at growing
// intervals.
func (w *wait) next(err error) (time.Duration, error) {
	pause, timeout, lasted := w.retry.next(), w.relay.opts.StartupTimeout, time.Since(w.since)
	if timeout > 0 && lasted+pause > timeout {
		return 0, cdc.Stop(cdc.ClassRuntime, "startup_timeout", fmt.Errorf("gave up waiting after %s (startup_timeout): %w", timeout, err), "")
	}
	w.relay.health.set(StateStarting, err)
	if w.said == 0 || lasted >= 2*w.said {
		w.said = max(lasted, startInterval)
		w.relay.log.Warn("waiting for a server", "error", err, "for", lasted.Round(time.Second).String(), "startup_timeout", timeout.String())
	}
	return pause, nil
}

// lead makes this relay the leader and the checkpoint its own, if no other relay leads.
func (r *Relay) lead(ctx context.Context) error {
	id, from, err := r.Source.Acquire(ctx, r.Checkpointer.Load)
	if err != nil {
		return err
	}
	if err = r.claim(ctx, id, from); err != nil {
		r.Source.Release(ctx)
	}
	return err
}

// claim starts a new generation of the checkpoint, so that whoever led before can save no more.
func (r *Relay) claim(ctx context.Context, id cdc.Source, from cdc.Position) error {
	c, _, err := r.Checkpointer.Load(ctx)
	if err != nil {
		return err
	}
	c.Source, c.Progress.Position = id, from
	c.Generation, c.Sequence, c.SavedAt = c.Generation+1, 0, time.Now()
	if c.Fence == "" {
		c.Fence = fence(id)
	}
	if err := r.Checkpointer.Save(ctx, c); err != nil {
		return fmt.Errorf("claim checkpoint: %w", err)
	}
	r.checkpoint.Store(&c)
	r.health.origin(id, from)
	attrs := []any{"database", id.Database, "from", string(from), "generation", c.Generation}
	if id.Slot != "" {
		attrs = append(attrs, "slot", id.Slot)
	}
	r.log.Info("leading", attrs...)
	return nil
}

// fence names a WAL or binlog for the sink. It must not be another one's: PostgreSQL's system identifier sees to that.
// MySQL and MariaDB have no such thing, but there is a checkpoint to keep a random name in.
func fence(id cdc.Source) string {
	own := id.Slot
	if own == "" {
		own = strings.ToLower(rand.Text())
	}
	return strings.Join([]string{"cdc-relay", id.SystemID, id.Database, own}, ".")
}

// open opens the sink for what this relay leads.
func (r *Relay) open(ctx context.Context) error { return r.Sink.Open(ctx, r.checkpoint.Load().Fence) }
