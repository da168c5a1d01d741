package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/cdc-relay/cdc-relay/writer"
)

const (
	// attempts of a transaction that the database could not serialize. Many callers with one message end each other's
	// transactions when the first one rolls back, so there are more than for a transaction alone.
	attempts = 20
	// maxPause is the longest pause between two attempts.
	maxPause = 200 * time.Millisecond
	// rollbackTime is how long a rollback may take after the context has ended.
	rollbackTime = 5 * time.Second
)

// Transact begins a transaction, calls fn and commits. If fn fails or panics, it rolls back; a panic is returned as
// *[PanicError]. If the database could not serialize the transaction ([writer.Retryable]), fn is called again in a new one,
// up to 20 times. Errors that are not fn's wrap [ErrDatabase].
func Transact[Tx any](ctx context.Context, db DB[Tx], fn func(ctx context.Context, tx Tx) error) error {
	for i := 1; ; i++ {
		err := once(ctx, db, fn)
		if err == nil || i == attempts || !writer.Retryable(err) || ctx.Err() != nil {
			return err
		}
		pause := time.NewTimer(rand.N(min(maxPause, 4*time.Millisecond<<min(i, 10)))) //nolint:gosec // jitter
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return err
		}
	}
}

// once is one attempt of Transact.
func once[Tx any](ctx context.Context, db DB[Tx], fn func(ctx context.Context, tx Tx) error) (err error) {
	tx, err := db.Begin(ctx)
	if err != nil {
		return databaseError("begin a transaction", "", err)
	}
	ended := false
	defer func() { // also if fn ends its goroutine
		if !ended {
			err = rollback(ctx, db, tx, err)
		}
	}()
	if err := call(ctx, tx, fn); err != nil {
		if outage(err) {
			return databaseError("handle in a transaction", "", err)
		}
		return err
	}
	ended = true
	err = db.Commit(ctx, tx)
	if err == nil || writer.Retryable(err) || ctx.Err() != nil {
		return err
	}
	// PostgreSQL checks deferred constraints at the commit, and drivers have errors of their own for a transaction in which
	// fn ignored an error: neither is an outage.
	err = fmt.Errorf("commit: %w", err)
	if state, number := writer.ServerError(err); (state == "" && number == 0 && !reachable(ctx, db)) || outage(err) {
		return databaseError("commit", "", err)
	}
	return err
}

// rollback returns err, as the database's if the connection was lost.
func rollback[Tx any](ctx context.Context, db DB[Tx], tx Tx, err error) error {
	ended := ctx.Err() != nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
	defer cancel()
	failed := db.Rollback(ctx, tx)
	if failed == nil || err == nil || ended || errors.Is(failed, sql.ErrTxDone) || reachable(ctx, db) {
		return err
	}
	return databaseError("roll back", "", fmt.Errorf("%w (after: %w)", failed, err))
}

// reachable reports whether the database begins a transaction now.
func reachable[Tx any](ctx context.Context, db DB[Tx]) bool {
	tx, err := db.Begin(ctx)
	return err == nil && db.Rollback(ctx, tx) == nil
}

// call turns a panic of fn into an error.
func call[Tx any](ctx context.Context, tx Tx, fn func(context.Context, Tx) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return fn(ctx, tx)
}
