package cdc

import "slices"

// Table is the schema that the rows of a batch share. It is immutable: a changed schema is a new
// Table, so a pointer comparison tells whether anything derived from it is still right.
type Table struct {
	// Schema and Name as the database spells them, unquoted; the partition root, never a partition.
	Schema, Name string
	// Columns in the order of the WAL or binlog.
	Columns []Column
	// Now is the table as the catalog has it, which the source has read because these rows lack a column that is needed; nil: it has
	// not.
	Now *Table
}

// Column describes one column of a [Table].
type Column struct {
	// Name as the database spells it.
	Name string
	// Form is how the column's values stand in a batch's arena.
	Form Form
	// Type is what they are, in whatever form.
	Type Type
}

// Type says what the values of a column are. Their [Form] does not: an integer that the database printed is text.
type Type uint8

// The types. Dead letters hold their numbers: new ones come last.
const (
	// TypeOther is any other type; its values are what the database prints.
	TypeOther Type = iota
	// TypeText is text of any length; TypeChar is padded with spaces, and PostgreSQL's char(n) is.
	TypeText
	TypeChar
	TypeBytes
	TypeUUID
	// TypeInteger, TypeDecimal and TypeFloat are numbers.
	TypeInteger
	TypeDecimal
	TypeFloat
	TypeBool
	TypeJSON
	// TypeTime is a moment; TypeLocalTime is date and time of day without a zone.
	TypeTime
	TypeLocalTime
)

// Index returns the position of the named column, or -1.
func (t *Table) Index(name string) int {
	return slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name })
}

// String returns "schema.name".
func (t *Table) String() string { return t.Schema + "." + t.Name }
