package writer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	defaultAttempts = 3

	// The pause before another attempt is random, up to minPause after the first, twice that after the second and so on.
	minPause     = 20 * time.Millisecond
	maxDoublings = 6
)

// errUnfinished is the error of an attempt that ended in a panic or in runtime.Goexit.
var errUnfinished = errors.New("the function did not return")

// UnitOption is an option of Run and of [NewUnit].
type UnitOption func(*unitConfig)

type unitConfig struct {
	attempts    int
	onHookError func(context.Context, error)
}

// WithAttempts sets how often Run runs the function while its errors are [Retryable]; the default is 3.
func WithAttempts(n int) UnitOption { return func(c *unitConfig) { c.attempts = n } }

// WithHookErrors sets what gets the errors and panics of functions after the transaction; the default logs them with slog.
// They are not in the result of Run, because a caller would repeat work that is committed.
func WithHookErrors(handle func(context.Context, error)) UnitOption {
	return func(c *unitConfig) { c.onHookError = handle }
}

func newUnitConfig(o []UnitOption) *unitConfig {
	c := &unitConfig{attempts: defaultAttempts}
	for _, set := range o {
		set(c)
	}
	if c.onHookError == nil {
		c.onHookError = logHookError
	}
	return c
}

func (c *unitConfig) newUnit() *Unit { return &Unit{onHookError: c.onHookError} }

// Beginner begins transactions: a *sql.DB or *sql.Conn, or a type that embeds one, such as sqlx's DB.
type Beginner interface {
	BeginTx(ctx context.Context, o *sql.TxOptions) (*sql.Tx, error)
}

// Run runs fn in a transaction with options, which may be nil, appends the events of its unit as the last statements, and
// commits. The result is nil if and only if the transaction is known to be committed.
//
// If an error is [Retryable], also that of the commit, Run rolls back and runs fn again after a short random pause, with
// another transaction and unit; fn must therefore load its aggregates itself, and return the errors of its statements. After
// the last attempt and after any other error, also ctx's, it returns the error. If no answer to COMMIT came, the error is a
// [*CommitUnknownError]: fn is not run again, and no function after the transaction is called. If fn panics, Run rolls back
// and the panic goes on.
//
// fn must neither commit nor roll back. Run blocks until the transaction and the functions after it are done. If the
// connection was lost before COMMIT, the server rolls back once it notices.
func (w *Writer) Run(
	ctx context.Context, db Beginner, options *sql.TxOptions, fn func(ctx context.Context, tx *sql.Tx, u *Unit) error, o ...UnitOption,
) error {
	return RunAttempts(ctx, func(ctx context.Context) (Attempt, error) {
		tx, err := db.BeginTx(ctx, options)
		if err != nil {
			return Attempt{}, err
		}
		return Attempt{
			Do: func(ctx context.Context, u *Unit) error {
				if err := fn(ctx, tx, u); err != nil {
					return err
				}
				return w.Flush(ctx, tx, u)
			},
			Commit:   func(context.Context) error { return tx.Commit() },
			Rollback: func(context.Context) error { return tx.Rollback() },
		}, nil
	}, o...)
}

// Attempt is one transaction of [RunAttempts].
type Attempt struct {
	Do               func(ctx context.Context, u *Unit) error // with the flush
	Commit, Rollback func(ctx context.Context) error
}

// RunAttempts does what [Writer.Run] does, with transactions that begin returns. It is for adapters.
func RunAttempts(ctx context.Context, begin func(context.Context) (Attempt, error), o ...UnitOption) error {
	c := newUnitConfig(o)
	if c.attempts < 1 {
		return fmt.Errorf("run transaction: %d attempts: give WithAttempts at least 1", c.attempts)
	}
	for attempt := 1; ; attempt++ {
		err := c.run(ctx, begin)
		switch {
		case err == nil || !Retryable(err):
			return err
		case attempt == c.attempts:
			return fmt.Errorf("run transaction, attempt %d of %d: %w", attempt, c.attempts, err)
		}
		if ended := pause(ctx, attempt); ended != nil {
			return fmt.Errorf("run transaction again: %w, after: %w", ended, err)
		}
	}
}

// run is one attempt.
func (c *unitConfig) run(ctx context.Context, begin func(context.Context) (Attempt, error)) (err error) {
	a, err := begin(ctx)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	u, committing := c.newUnit(), false
	defer func() {
		if !committing {
			_ = a.Rollback(ctx) // if it fails, the connection is closed, and the server rolls back
		}
		u.End(ctx, err)
	}()
	err = errUnfinished // until Do returns
	if err := a.Do(ctx, u); err != nil {
		return err
	}
	// An end of the context from here on may be after COMMIT was sent: drivers return the same error for both.
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("commit transaction: %w", err)
	}
	committing, err = true, &CommitUnknownError{errUnfinished}
	return CommitError(ctx, a.Commit(ctx))
}

func pause(ctx context.Context, attempt int) error {
	timer := time.NewTimer(rand.N(minPause << min(attempt-1, maxDoublings))) //nolint:gosec // only spreads load
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
