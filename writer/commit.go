package writer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// CommitUnknownError means that COMMIT was sent, or may have been, and no answer came: the connection was lost, or the
// context ended meanwhile. The transaction is committed or rolled back. Do not repeat its work before the data was checked.
type CommitUnknownError struct {
	// Err is the driver's error.
	Err error
}

// Error returns what happened, and the fix.
func (e *CommitUnknownError) Error() string {
	return fmt.Sprintf("commit transaction: %v: whether it is committed is unknown: check the data before the work is repeated", e.Err)
}

// Unwrap returns the driver's error.
func (e *CommitUnknownError) Unwrap() error { return e.Err }

// CommitError tells what the error of a commit means. It returns nil for nil, a [*CommitUnknownError] if the transaction
// may be committed, and otherwise err with a description: the transaction is rolled back. ctx is the transaction's. It is for
// [Unit.End] in transactions that are not begun by Run.
func CommitError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case rolledBack(ctx, err):
		return fmt.Errorf("commit transaction: %w", err)
	default:
		return &CommitUnknownError{err}
	}
}

// rolledBack reports whether the error of a commit shows that the transaction is rolled back. Errors that promise that nothing
// was sent do not: after COMMIT was sent and its answer lost, pgx returns "conn closed", of which pgconn.SafeToRetry is true,
// and lib/pq driver.ErrBadConn.
func rolledBack(ctx context.Context, err error) bool {
	var state interface{ SQLState() string }
	switch {
	case errors.Is(err, sql.ErrTxDone): // database/sql rolls back as soon as the context ends
		return ctx.Err() != nil
	case errors.As(err, &state):
		return answersCommit(state.SQLState())
	}
	switch mysqlNumber(err) {
	case 1020, 1205, 1213, // as in Retryable
		1290, 1792, 1836, // the server has become read-only
		3101: // ER_TRANSACTION_ROLLBACK_DURING_COMMIT, of group replication
		return true
	}
	return commitOfFailed(err)
}

// answersCommit reports whether PostgreSQL has rolled back a transaction whose COMMIT it answers with this SQLSTATE. Others
// are of a connection or a server that ends: a server that is stopped while COMMIT waits for a standby answers 57P01, and has
// committed.
func answersCommit(sqlState string) bool {
	for _, prefix := range []string{"08", "25P", "40003", "53", "57P", "58", "XX"} {
		if strings.HasPrefix(sqlState, prefix) {
			return false
		}
	}
	return true
}

// commitOfFailed reports whether a driver for PostgreSQL says that it rolled back, because a statement of the transaction
// had failed. The errors are pgx.ErrTxCommitRollback and pq.ErrInFailedTransaction, known by their texts because the writer
// does not import drivers.
func commitOfFailed(err error) bool {
	text := err.Error()
	return strings.Contains(text, "commit unexpectedly resulted in rollback") ||
		strings.Contains(text, "pq: could not complete operation in a failed transaction")
}
