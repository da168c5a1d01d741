package writer

import (
	"database/sql"
	"errors"
	"fmt"
	"strconv"
)

// ErrInvalidEvent is wrapped by every error about an event that cannot be written. Nothing was sent to the database, and
// the transaction can continue. Use [errors.As] with *[EventError] for the event and the field.
var ErrInvalidEvent = errors.New("invalid event")

// ErrPayloadTooLarge is an [ErrInvalidEvent] for a payload over the limit, see [WithMaxPayload].
var ErrPayloadTooLarge = fmt.Errorf("%w: payload too large", ErrInvalidEvent)

// ErrDuplicate means that at least one of the events is already in the table. The call's last INSERT wrote nothing. See
// [WithOnDuplicate].
var ErrDuplicate = errors.New("an event with this ID already exists")

// ErrNoTransaction means that an event was to be appended outside of a transaction.
var ErrNoTransaction = errors.New("not in a transaction")

var errNilTx = fmt.Errorf("%w: the transaction is nil: pass the open transaction that writes the business data", ErrNoTransaction)

// Retryable reports whether the transaction in which err occurred, also at its commit, is to be rolled back and run
// again: the database could not serialize it (SQLSTATE 40001, MySQL's and MariaDB's 1020), chose it as the victim of a
// deadlock (40P01, 1213), or a lock was not free in time (1205, which undoes only the statement).
func Retryable(err error) bool {
	state, number := ServerError(err)
	return state == "40001" || state == "40P01" || number == 1020 || number == 1205 || number == 1213
}

// ServerError returns the SQLSTATE of PostgreSQL's error in err's tree, or the number of MySQL's or MariaDB's, by whatever
// driver; "" and 0 mean that the error is not the server's.
func ServerError(err error) (sqlState string, number uint64) {
	var state interface{ SQLState() string } // *pgconn.PgError and *pq.Error have it
	if errors.As(err, &state) {
		return state.SQLState(), 0
	}
	return "", mysqlNumber(err)
}

// EventError says which event and field of a call is wrong, why, and the fix. It wraps [ErrInvalidEvent], and
// [ErrPayloadTooLarge] for a payload over the limit.
type EventError struct {
	// Index is the event's index in the arguments, or in what the last interceptor returned.
	Index int

	// Field is the Go field, for example `AggregateID` or `Headers["trace"]`; "" if the event itself is wrong.
	Field string

	// Reason is the cause and the fix.
	Reason string

	kind error
}

// Error returns event, field, cause and fix in one line.
func (e *EventError) Error() string {
	if e.Field == "" {
		return "event " + strconv.Itoa(e.Index) + " " + e.Reason
	}
	return "event " + strconv.Itoa(e.Index) + ": " + e.Field + " " + e.Reason
}

// Unwrap returns [ErrInvalidEvent] or [ErrPayloadTooLarge].
func (e *EventError) Unwrap() error { return e.kind }

// uniqueViolation is PostgreSQL's SQLSTATE for a row that exists.
const uniqueViolation = "23505"

// fixPostgres returns the fix for an error of PostgreSQL by its SQLSTATE (PostgreSQL documentation, appendix A).
func fixPostgres(sqlState, table string) string {
	switch sqlState {
	case "42P01": // undefined_table
		return "create it with 'cdc-relay setup', or name another with WithTable, or correct search_path"
	case "42703": // undefined_column
		return "compare the table's columns with 'cdc-relay schema print'"
	case "42804": // datatype_mismatch
		return "compare the table's columns with 'cdc-relay schema print'; for a payload of text or jsonb use WithPayloadColumn"
	case "42501": // insufficient_privilege
		return "GRANT INSERT ON " + table + " to the role of this connection"
	case "23514": // check_violation, also if a partitioned table has no partition for the row
		return "if no partition takes the row, add a DEFAULT partition as 'cdc-relay schema print' shows"
	case "40001", "40P01": // serialization_failure, deadlock_detected
		return "roll back and run the transaction again"
	case "25006": // read_only_sql_transaction
		return "open a read-write transaction on the primary"
	case "25P02": // in_failed_sql_transaction
		return "an earlier statement of this transaction failed: roll back and fix that statement"
	default:
		return ""
	}
}

// insertError wraps the database's error for an INSERT of rows with a description and, if known, the fix.
func (w *Writer) insertError(rows int, err error) error {
	what := strconv.Itoa(rows) + " events"
	if rows == 1 {
		what = "1 event"
	}
	hint, duplicate := w.fix(err)
	switch {
	case duplicate:
		return fmt.Errorf("insert %s into %s: %w: %w: append each event once", what, w.table, err, ErrDuplicate)
	case hint == "":
		return fmt.Errorf("insert %s into %s: %w", what, w.table, err)
	default:
		return fmt.Errorf("insert %s into %s: %w: %s", what, w.table, err, hint)
	}
}

// fix returns the fix, "" if unknown, and whether the error means a duplicate.
func (w *Writer) fix(err error) (hint string, duplicate bool) {
	state, number := ServerError(err)
	switch {
	case errors.Is(err, sql.ErrTxDone):
		return "append before the transaction is committed or rolled back, and before its context ends", false
	case w.dialect != Postgres:
		return fixMySQL(number, w.table), number == mysqlDuplicate
	default:
		return fixPostgres(state, w.table), state == uniqueViolation
	}
}
