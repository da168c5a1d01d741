package cdc

import (
	"slices"
	"time"
)

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

// RowAction is what is done with rows of a table whose events are published: old ones are deleted, or those that are pending are marked.
type RowAction struct {
	// Table is its name ("public.outbox"), SQL the name in PostgreSQL's SQL. Key is the column with the event's ID, and IDPrefix what goes
	// before it.
	Table, SQL, Key, IDPrefix string
	// OlderThan is the age of rows that are deleted, by the column At. Zone is where the clocks were that wrote it, if its type has no zone;
	// nil: UTC.
	At        string
	Zone      *Zone
	OlderThan time.Duration
	// Pending is the condition of rows that are marked, and Condition its name in a [Checkpoint]; "": rows are deleted.
	Pending, Condition string
	// Set is what becomes of them, OnDeadLetter what becomes of those whose events are dead letters.
	Set, OnDeadLetter []Assignment
}

// Name returns the table's name.
func (a *RowAction) Name() string { return a.Table }

// Action returns a.
func (a *RowAction) Action() *RowAction { return a }

// Marks reports whether rows are marked.
func (a *RowAction) Marks() bool { return a.Pending != "" }

// Doing is what an error says that was being done.
func (a *RowAction) Doing() string {
	if a.Marks() {
		return "mark rows"
	}
	return "delete old rows"
}

// Partitioned is the error of a table with partitions.
func (a *RowAction) Partitioned(table string) error {
	if a.Marks() {
		return Fixable("remove write_back: old partitions are dropped as a whole, and need no marks", "rows of %s are not marked: it has partitions, so no index finds a row by its ID alone", table)
	}
	return Fixable("remove retention.partitions: false if they are daily ones of cdc-relay; otherwise remove retention, and drop the partitions with the means of the software that made them",
		"table %s has partitions, which are dropped as a whole: its rows are not deleted", table)
}

// NoUniqueIndex is the error of a table whose rows are not found by their ID.
func NoUniqueIndex(column, table string) error {
	return Fixable("create a unique index on it", "column %s of table %s has no unique index of its own, by which rows are found", column, table)
}

// StillPending is the error of rows that meet the condition also after they were marked.
func StillPending(table string, rows int) error {
	return Fixable("have write_back set a column so that its condition no longer holds, and look for a trigger or rule that takes it back",
		"rows of table %s would be pending after they are marked: %d of a batch", table, rows)
}

// UnfitWriteBack is the error of a condition, or of what is set, that a server refuses.
func UnfitWriteBack(table, server, said string) error {
	return ConfigError(BadWriteBack, "correct write_back: pending is what follows WHERE, and set has a text or {sql: an expression} for each column, in the server's SQL",
		"write_back of table %s: %s: %s", table, server, said)
}

// Columns returns those that are set, each once.
func (a *RowAction) Columns() (names []string) {
	for _, set := range slices.Concat(a.Set, a.OnDeadLetter) {
		names = append(names, set.Column)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Assigned returns what rows are set to.
func (a *RowAction) Assigned(dead bool) []Assignment {
	if dead {
		return a.OnDeadLetter
	}
	return a.Set
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
