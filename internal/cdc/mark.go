package cdc

// RowKey is a row's key: the event's ID, and the value of its column.
type RowKey struct {
	ID    string
	Value any
}

// Assignment sets a column: to a text that the database converts, or, if SQL is not "", to an expression.
type Assignment struct{ Column, Value, SQL string }
