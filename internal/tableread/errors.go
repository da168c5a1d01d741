package tableread

import (
	"errors"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// NoID says that a table has no column with the event's ID.
func NoID(table, column string) error {
	return cdc.ConfigError("no_id", "map event_id to a column of the table in tables[].columns", "table %s has no column %q with the event's ID, so its rows cannot be read again", table, column)
}

// NoTime says that a table has no column with the time of its rows.
func NoTime(table string) error {
	return cdc.ConfigError("no_time", "select all rows, or by IDs; or map created_at to a column with the time of the INSERT in tables[].columns",
		"table %s has no column with the time of the INSERT, so its rows cannot be selected by time", table)
}

// ReasonNoOrder is the reason of NoOrder and NoOrderColumn.
const ReasonNoOrder = "no_order"

// NoOrder says that a table has no column by which its rows can be read.
func NoOrder(table string) error {
	return cdc.ConfigError(ReasonNoOrder, "name a column that grows with each INSERT in tables[].order_by, or map created_at to a column with its time",
		"table %s has neither a number that the database counts up nor the time of the INSERT, so its rows have no order and can be read by --id alone", table)
}

// NoOrderColumn says that the column that the configuration names is not there.
func NoOrderColumn(table, column string) error {
	return cdc.ConfigError(ReasonNoOrder, "name a column of the table", "table %s has no column %q, which tables[].order_by names", table, column)
}

// NoPlace says that a row that is selected is NULL in a column that gives it its place.
func NoPlace(table, column string) error {
	return cdc.ConfigError("no_place", "select rows in which it is filled in, fill it in (UPDATE), or name another column in tables[].order_by",
		"column %s of table %s is NULL in a row that is selected, so it has no place in the order", column, table)
}

// ReasonNotAnID is the reason of NotAnID.
const ReasonNotAnID = "bad_id"

const fixID = "give the ID as the header ce_id has it"

// NotAnID says that no event of a table can have an ID.
func NotAnID(table, column, kind, said string) error {
	return cdc.ConfigError(ReasonNotAnID, fixID, "not an event ID: column %s of table %s is of type %s (%s)", column, table, kind, said)
}

// Values returns the values that the column of a table has for event IDs, which begin with prefix; NotAnID if one does not.
func Values(table, prefix string, ids []string) ([]string, error) {
	values := make([]string, len(ids))
	for i, id := range ids {
		value, ok := strings.CutPrefix(id, prefix)
		if !ok {
			return nil, cdc.ConfigError(ReasonNotAnID, fixID, "not an event ID: those of table %s begin with %q, and %q does not", table, prefix, id)
		}
		values[i] = value
	}
	return values, nil
}

// BadCondition says that the database refused a condition.
func BadCondition(table, said string) error {
	return cdc.ConfigError("bad_condition", "write what follows WHERE in a SELECT on each of the tables, in the database's SQL, such as \"status IN ('CREATED', 'FAILED')\"",
		"the condition cannot be used on table %s (%s)", table, strings.Join(strings.Fields(said), " "))
}

// MayNotRead says that the user lacks SELECT.
func MayNotRead(table, said string) error {
	return cdc.ConfigError("no_privilege", "set CDC_RELAY_OWNER_DSN to the connection string of the table's owner, or GRANT SELECT on it",
		"the rows of table %s may not be read (%s)", table, said)
}

// ErrGone says that a table was dropped, or renamed.
var ErrGone = errors.New("a table was dropped or renamed while it was read")

// Gone is such an error, of a table or of what was taken out of it.
func Gone(table, said string) error {
	return cdc.Fixable("run the command again", "%w: %s, or what retention has detached from it (%s)", ErrGone, table, said)
}

// ErrUnreadable says that the server cannot send a row.
var ErrUnreadable = errors.New("a row cannot be read")

// Unreadable is such an error.
func Unreadable(table, id, said string) error {
	return cdc.Fixable("correct the row (UPDATE), or delete it", "%w: %s of table %s (%s)", ErrUnreadable, id, table, said)
}
