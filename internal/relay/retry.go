package relay

import (
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// endIfFinal ends the attempt if a retry cannot fix err, and reports whether it has. Errors of configuration are retried: what worked once
// in this run is expected to work again, for example after a password was rotated or an object created again.
func (a *attempt) endIfFinal(err error) bool {
	if errors.Is(err, cdc.ErrFenced) && a.keeper.stepDown(err) {
		return true
	}
	if cdc.ClassOf(err) == cdc.ClassConfig || stopError(err) == nil {
		return false
	}
	a.fail(stopError(err))
	return true
}

// stopError returns the error that ends the run, or nil if a retry may fix err.
func stopError(err error) error {
	if errors.Is(err, cdc.ErrRewind) { // whatever it wraps
		return nil
	}
	if _, ok := errors.AsType[*cdc.StopError](err); ok {
		return err
	}
	if errors.Is(err, cdc.ErrFenced) {
		return cdc.Stop(cdc.ClassFenced, "fenced", err, "restart this relay: it stands by then")
	}
	return nil
}

// pauses are those before something is tried again. They double, from RetryInitial to RetryMax. Each is up to half shorter or
// longer, so that relays that lost the same server do not all reconnect at once.
type pauses struct {
	backoff.ExponentialBackOff

	longest time.Duration
}

func (r *Relay) pauses() *pauses {
	p := &pauses{ExponentialBackOff: *backoff.NewExponentialBackOff(), longest: r.opts.RetryMax}
	p.InitialInterval, p.MaxInterval, p.Multiplier = r.opts.RetryInitial, r.opts.RetryMax, 2
	p.Reset()
	return p
}

func (p *pauses) next() time.Duration { return min(p.NextBackOff(), p.longest) }
