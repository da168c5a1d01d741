package cdc

// RowKey is a row's key: the event's ID, and the value of its column.
type RowKey struct {
	ID    string
	Value any
}

// NewRowKey returns the key of a row whose ID is a text before that of a column. Without the latter it has none: such a row makes no record,
// and its dead letter is without an ID.
func NewRowKey(prefix, column string, value any) RowKey {
	if column == "" {
		return RowKey{"", value}
	}
	return RowKey{prefix + column, value}
}

// Kept is what a leading relay keeps. Its methods may be called from any goroutine.
type Kept interface {
	// Saved returns the last checkpoint that was claimed or saved.
	Saved() Checkpoint
	// Settle has the next checkpoint that is saved say that a condition is settled; see [Checkpoint].
	Settle(condition string)
}

// Assignment sets a column: to a text that the database converts, or, if SQL is not "", to an expression.
type Assignment struct{ Column, Value, SQL string }

// BadWriteBack is the reason of a write_back that the table or the server refuses.
const BadWriteBack = "write_back"
