package writer

import (
	"context"
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

// errUnfinished is what the unit is told of an attempt that did not send COMMIT. The function's error may be about the commit of another
// transaction.
var errUnfinished = errors.New("the transaction was not finished")

// Run runs fn in a transaction of db, appends the events of its unit as the last statements, and commits. The result is nil if
// and only if the transaction is known to be committed.
//
// If an error is [Retryable], also that of the commit, Run rolls back and runs fn again after a short random pause, with
// another transaction and unit, up to [WithAttempts] times; fn must therefore load the aggregates that it changes, and return the
// errors of its statements. After the last attempt and after any other error, also ctx's, it returns the error. If no answer to COMMIT
// came, the error is a [*CommitUnknownError]: fn is not run again, and no function after the transaction is called. If fn
// panics, Run rolls back and the panic goes on.
//
// fn must neither commit nor roll back. If it hides the error of a statement after which the server has rolled back, such as a deadlock,
// nothing is committed on PostgreSQL. MySQL and MariaDB commit what fn did after it; Run finds out by a savepoint, which costs two round
// trips there, appends nothing, and returns an error that wraps [ErrNoTransaction]. Run blocks until the transaction and the functions after it are done. If the
// connection was lost before COMMIT, the server rolls back once it notices.
func Run[T any](ctx context.Context, db DB[T], w *Writer, fn func(ctx context.Context, tx T, u *Unit) error) error {
	if db.Dialect() != w.dialect {
		return errors.New("run transaction: the database and the writer have different dialects: give both the same")
	}
	for i := 1; ; i++ {
		err := attempt(ctx, db, w, fn)
		switch {
		case err == nil || !Retryable(err):
			return err
		case i == w.attempts:
			return fmt.Errorf("run transaction, attempt %d of %d: %w", i, w.attempts, err)
		}
		if ended := pause(ctx, i); ended != nil {
			return fmt.Errorf("run transaction again: %w, after: %w", ended, err)
		}
	}
}

func attempt[T any](ctx context.Context, db DB[T], w *Writer, fn func(context.Context, T, *Unit) error) (err error) {
	tx, err := db.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	u, committing := w.NewUnit(), false
	defer func() {
		end := err
		if !committing {
			_ = db.Rollback(ctx, tx) // if it fails, the connection is closed, and the server rolls back
			end = errUnfinished
		}
		u.End(ctx, end)
	}()
	if err := setSavepoint(ctx, db, tx); err != nil {
		return err
	}
	if err := fn(ctx, tx, u); err != nil {
		return err
	}
	if err := verifySavepoint(ctx, db, tx); err != nil {
		return err
	}
	if err := w.Flush(ctx, TxOf(db, tx), u); err != nil {
		return err
	}
	// An end of the context from here on may be after COMMIT was sent: drivers return the same error for both.
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("commit transaction: %w", err)
	}
	committing, err = true, &CommitUnknownError{errUnfinished}
	return CommitError(ctx, db.Commit(ctx, tx))
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
