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
	// maxTurn is how long an attempt waits for another one, which may be the one around it.
	maxTurn = 5 * time.Second
	// rollbackTime is how long a rollback may take after the context has ended.
	rollbackTime = 5 * time.Second
)

// Transact begins a transaction, calls fn and commits. If fn fails or panics, it rolls back; a panic is returned as
// *[PanicError]. If the database could not serialize the transaction ([writer.Retryable]), fn is called again in a new one,
// up to 20 times. Other errors that are not fn's wrap [ErrDatabase].
func Transact[Tx any](ctx context.Context, db writer.DB[Tx], fn func(ctx context.Context, tx Tx) error) error {
	return again(ctx, nil, func() error { return once(ctx, db, new(writer.Unit), fn) })
}

// TransactUnit is Transact with a unit of work, as [writer.Run] has it: w appends its events when fn has returned nil, and its functions
// are called when the transaction has ended. It is for packages that build on this one.
func TransactUnit[Tx any](ctx context.Context, db writer.DB[Tx], w *writer.Writer, fn func(ctx context.Context, tx Tx, u *writer.Unit) error) error {
	return transactUnit(ctx, db, w, nil, fn)
}

func transactUnit[Tx any](ctx context.Context, db writer.DB[Tx], w *writer.Writer, turn chan struct{}, fn func(ctx context.Context, tx Tx, u *writer.Unit) error) error {
	return again(ctx, turn, func() error {
		u := w.NewUnit()
		return once(ctx, db, u, func(ctx context.Context, tx Tx) error {
			if err := fn(ctx, tx, u); err != nil {
				return err
			}
			return appended(w.Flush(ctx, writer.TxOf(db, tx), u))
		})
	})
}

// appended returns the error of an append, as the database's if no other message could be handled either.
func appended(err error) error {
	if state, number := writer.ServerError(err); lacks(state, number) {
		return &DatabaseError{Op: "append events", Err: err} // err has the fix
	}
	return err
}

// again calls once again while the database could not serialize its transaction. Attempts after a deadlock of PostgreSQL follow one another,
// if they have a turn: each deadlock among them would cost its deadlock_timeout of 1 s.
func again(ctx context.Context, turn chan struct{}, once func() error) error {
	err := once()
	for i := 1; i < attempts && err != nil && ctx.Err() == nil && writer.Retryable(err); i++ {
		wait(ctx, nil, rand.N(min(maxPause, 4*time.Millisecond<<min(i, 10)))) //nolint:gosec // jitter
		state, _ := writer.ServerError(err)
		err = func() error {
			if turn != nil && state == deadlock && wait(ctx, turn, maxTurn) {
				defer func() { <-turn }()
			}
			if ctx.Err() != nil { // wait may have taken the turn all the same
				return err
			}
			return once()
		}()
	}
	return err
}

// deadlock is PostgreSQL's SQLSTATE.
const deadlock = "40P01"

// wait returns true when it has taken the turn, and false when the time is up or the context has ended.
func wait(ctx context.Context, turn chan struct{}, most time.Duration) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case turn <- struct{}{}:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// errUnfinished is what the unit is told of an attempt that did not send COMMIT. The function's error may be about the commit of another
// transaction.
var errUnfinished = errors.New("the transaction was not finished")

// once is one attempt of Transact.
func once[Tx any](ctx context.Context, db writer.DB[Tx], u *writer.Unit, fn func(ctx context.Context, tx Tx) error) (err error) {
	tx, err := db.Begin(ctx)
	if err != nil {
		return databaseError("begin a transaction", "", err)
	}
	ended, result := false, errUnfinished
	defer func() { // also if fn ends its goroutine
		if !ended {
			err = rollback(ctx, db, tx, err)
		}
		u.End(ctx, result)
	}()
	if err = call(ctx, tx, fn); err == nil {
		err = ctx.Err() // later it might be after COMMIT was sent
	}
	if err != nil {
		if outage(err) {
			return databaseError("handle in a transaction", "", err)
		}
		return err
	}
	ended, result = true, &writer.CommitUnknownError{Err: errUnfinished} // if Commit panics
	err = db.Commit(ctx, tx)
	result = writer.CommitError(ctx, err)
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
func rollback[Tx any](ctx context.Context, db writer.DB[Tx], tx Tx, err error) error {
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
func reachable[Tx any](ctx context.Context, db writer.DB[Tx]) bool {
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
