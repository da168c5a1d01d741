package inbox

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cdc-relay/cdc-relay/writer"
)

// ErrInvalidMessage is wrapped by every error about a message that cannot be recorded. Nothing was sent to the database.
// Use [errors.As] with *[InvalidError] for what is wrong with it.
var ErrInvalidMessage = errors.New("invalid message")

// InvalidError says what is wrong with a message or a name, and the fix. It wraps [ErrInvalidMessage].
type InvalidError struct{ What, Reason, Fix string }

// Error returns both in one line.
func (e *InvalidError) Error() string { return e.What + " " + e.Reason + ": " + e.Fix }

// Unwrap returns [ErrInvalidMessage].
func (*InvalidError) Unwrap() error { return ErrInvalidMessage }

// ErrDatabase is wrapped by errors that are the database's and not the handler's: it cannot be reached, takes no writes, or
// lacks a table or a right. Another attempt will fail until the database is repaired. The message was not handled, unless the
// answer to COMMIT was lost: the next attempt finds out.
var ErrDatabase = errors.New("the inbox's database failed")

// PanicError is a panic of a handler, whose transaction was rolled back, or of another function that the application gave.
type PanicError struct {
	Value any
	Stack []byte
}

// Error returns the panic's value and the stack of its goroutine.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// Unwrap returns the panic's value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// permanentError is the error of [Permanent].
type permanentError struct{ error }

// Unwrap returns the error given to Permanent.
func (e permanentError) Unwrap() error { return e.error }

// Permanent marks a handler's error as one that another attempt cannot repair: a consumer does not try again, but parks the
// message or stops, as it is told to. The error's text is unchanged.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanentError{err}
}

// RetryAfter is an error that sets the pause before a consumer's next attempt, in place of the consumer's own. A handler returns
// it as it is or wrapped. The attempt counts as any other.
type RetryAfter time.Duration //nolint:errname // "return inbox.RetryAfter(time.Minute)"

// Error says when the next attempt is.
func (d RetryAfter) Error() string { return "try again in " + time.Duration(d).String() }

// IsPermanent reports whether err is marked by [Permanent], or is about a message, or an event that a handler raised, that nothing will
// make valid.
func IsPermanent(err error) bool {
	var p permanentError
	return errors.As(err, &p) || errors.Is(err, ErrInvalidMessage) || errors.Is(err, ErrNoHandler) || errors.Is(err, writer.ErrInvalidEvent)
}

// DatabaseError is an [ErrDatabase]: what was being done, the driver's error, and the fix if it is known.
type DatabaseError struct {
	Op, Fix string
	Err     error
}

// Error returns all three in one line.
func (e *DatabaseError) Error() string {
	if e.Fix == "" {
		return e.Op + ": " + e.Err.Error()
	}
	return e.Op + ": " + e.Err.Error() + ": " + e.Fix
}

// Unwrap returns [ErrDatabase] and the driver's error.
func (e *DatabaseError) Unwrap() []error { return []error{ErrDatabase, e.Err} }

// databaseError describes an error of a statement of the inbox, as the database's if no other message could be handled; table "" is none.
func databaseError(op, table string, err error) error {
	var already *DatabaseError
	if errors.As(err, &already) {
		return err
	}
	// Another transaction has the row, as one that handles the same message: no other message waits for it.
	if state, number := writer.ServerError(err); table != "" && (state == "55P03" || number == 1205) {
		return fmt.Errorf("%s: %w", op, err)
	}
	return &DatabaseError{Op: op, Err: err, Fix: Fix(table, err)}
}

// Fix returns the fix for an error of a statement about a table of this module, by its SQLSTATE (PostgreSQL documentation,
// appendix A) or number (MySQL manual, "Server Error Message Reference"), "" if unknown. It is for packages that build on this
// one.
func Fix(table string, err error) string {
	if errors.Is(err, sql.ErrTxDone) {
		return "use the transaction before it is committed or rolled back, and before its context ends"
	}
	switch state, number := writer.ServerError(err); {
	case state == "42P01", state == "42703", number == 1146, number == 1054:
		return "create the table with the SQL of 'cdc-relay schema print --inbox' (for keys: --idempotency), or correct WithTable or search_path"
	case state == "42501", number == 1142, number == 1143:
		return "GRANT SELECT, INSERT, UPDATE, DELETE ON " + table + " to the user of this connection"
	case state == "25006", number == 1290, number == 1792, number == 1836:
		return "connect to the primary, which takes writes"
	case number == 1153:
		return "raise the server's max_allowed_packet over three times the largest record"
	case state == "25P02":
		return "an earlier statement of this transaction failed: roll back and fix that statement"
	default:
		return ""
	}
}

// lacks reports whether the server says that there is no such table or column, or no right to it.
func lacks(state string, number uint64) bool {
	return slices.Contains([]string{"42P01", "42703", "42501"}, state) || slices.Contains([]uint64{1146, 1054, 1142, 1143}, number)
}

// outage reports whether the server says that it is stopping, takes no writes, or lacks memory, disk or connections. A
// handler that gets such an error has not failed.
func outage(err error) bool {
	state, number := writer.ServerError(err)
	switch number {
	case 1021, 1040, 1041, 1053, 1203, 1226, 1290, 1836, 1927:
		return true
	}
	switch state {
	case "25006", "57P01", "57P02", "57P03":
		return true
	case "53400": // a limit that the administrator has set, of temporary files for example: a statement's own fault
		return false
	default:
		return len(state) == 5 && (state[:2] == "08" || state[:2] == "53" || state[:2] == "58")
	}
}
