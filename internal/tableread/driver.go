package tableread

import (
	"context"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// ReadOptions name a table that is read by SQL.
type ReadOptions struct {
	// Table is its name ("public.outbox"), SQL the name in SQL.
	Table, SQL string
	// Key is the column with the event's ID, At the one with the time. IDPrefix goes before the value of Key in IDs.
	Key, At, IDPrefix string
	// OrderBy is the column by which rows are read; "": a number that the database counts up, if Counted and there is one, or else At.
	OrderBy string
	Counted bool
	// Zone is where the clocks were that wrote the time, if its type has no zone; nil: UTC.
	Zone *cdc.Zone
	// TakenOut is a query for the names of the tables that were taken out of it; "": there are none. On PostgreSQL they are names in SQL.
	// MySQL returns those that the user may see; Routine is the procedure that knows all of them. Spare is the name of one that gets its
	// rows, and then another name, while it is listed.
	TakenOut, Routine, Spare string
	// Snapshot is an exported snapshot of PostgreSQL to read the rows in; "": each statement reads what is committed by then.
	Snapshot string
}

// Column is one of a table; the zero value is none.
type Column struct {
	// Name is its name, SQL the name in SQL. Kind is what its values are, in PostgreSQL the type to which parameters are cast. Time is the
	// type of a column with times, or else "".
	Name, SQL, Kind, Time string
	// KeyText is the format of the SQL for the text that keys have of a value.
	KeyText string
	// Index is its place in the table's columns.
	Index    int
	Nullable bool
	// Counted is whether it is a number that the database counts up, and Sorts whether the server compares its values as their texts in
	// keys compare. Unique is whether a unique index has it; in a partitioned table it may hold more columns, as it must. In MySQL it is
	// known of the key of a foreign table.
	Counted, Sorts, Unique bool
}

// Cell is the SQL of one of the table's columns: how its value is selected, what is selected where a table lacks the column, and the text
// that a record has of it.
type Cell struct{ SQL, Absent, Text string }

// TakenOut is a table that was taken out.
type TakenOut struct {
	// ID stays when the table is renamed, if the database has such an ID.
	ID, SQL string
	Columns []string
	// Since and Until are the times of its rows, inclusively; zero: it has none.
	Since, Until time.Time
	// Spare is whether it may get other rows while it is listed.
	Spare bool
}

// within reports whether it has rows of a window.
func (t *TakenOut) within(w Window) bool {
	return !t.Until.IsZero() && !t.Until.Before(w.Since) && (w.Until.IsZero() || t.Since.Before(w.Until))
}

// Dialect is how the SQL of databases differs.
type Dialect struct {
	// Time is the layout of a parameter with a time, LocalTime the type of a time without a zone.
	Time, LocalTime string
	// Tuples is whether the server finds the rows of (a, b) > (c, d) by an index.
	Tuples bool
	// Beside is whether the columns of the order are selected beside the others, because what is selected of them sorts in another way.
	Beside bool
}

// Driver is what a [Reader] asks of a database. Parameters are whatever Query takes.
type Driver interface {
	// Query runs a query and calls row for each row, whose values are valid until it returns. page is what the query reads, in the forms of
	// the table's columns; nil: other things, as text.
	Query(ctx context.Context, sql string, args []any, page *Page, row func(values [][]byte) error) error
	// Reading calls read, which reads the table. It returns [ErrAgain] if it is to be called again.
	Reading(ctx context.Context, read func() error) error
	// TakenOut returns what was taken out of the table, without times, and Span adds them, and the columns if they are missing.
	TakenOut(ctx context.Context) ([]TakenOut, error)
	Span(ctx context.Context, t *TakenOut) error
	// Param adds a parameter and returns the SQL for it: a value of a column, as keys have it, or a record's text if the column is none.
	// Among does so with a list, and returns the SQL that follows what must be one of them.
	Param(c *Conditions, of *Column, text string) string
	Among(c *Conditions, of *Column, texts []string) string
	// KeyOf returns the text that keys have of an event ID without its prefix, and whether it is a value of the column.
	KeyOf(id string) (text string, ok bool)
	// AppendKey appends the text that keys have of an ID in a row of a page.
	AppendKey(text, value []byte) ([]byte, error)
	// AppendCell appends the value of a column in a row of a page in the column's form.
	AppendCell(arena []byte, column int, value []byte) ([]byte, error)
}
