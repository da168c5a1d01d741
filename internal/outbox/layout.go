package outbox

import (
	"maps"
	"slices"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Layout says which column of a table plays which role. The zero Layout has no columns; [Native] and
// [Mapped] make useful ones.
type Layout struct {
	columns [Roles]string
	mapped  bool
}

// Native returns the layout of the table that [PostgresTable] and [MySQLTable] make: every role, under its own name.
func Native() Layout {
	var l Layout
	copy(l.columns[:], strings.Fields(roleNames))
	return l
}

// Mapped returns the layout of a table made by other software from role names and the columns that play
// them. Roles that are not listed have no column, whatever the table's columns are called. The event id,
// the event type and the payload must be listed. No entries at all: the native layout.
func Mapped(columns map[string]string) (Layout, error) {
	if len(columns) == 0 {
		return Native(), nil
	}
	l := Layout{mapped: true}
	for _, name := range slices.Sorted(maps.Keys(columns)) {
		role, ok := ParseRole(name)
		if !ok {
			return Layout{}, cdc.Fixable("use one of "+strings.Join(strings.Fields(roleNames), ", "), "%s: not a part of an event", name)
		}
		if columns[name] == "" {
			return Layout{}, cdc.Fixable("name the column, or remove the line", "%s: the column's name is empty", name)
		}
		l.columns[role] = columns[name]
	}
	for _, role := range []Role{EventID, EventType, Payload} {
		if l.columns[role] == "" {
			return Layout{}, cdc.Fixable("name the column that holds it", "%s: missing", role)
		}
	}
	return l, nil
}

// Column returns the column that plays the role; "" when none does.
func (l Layout) Column(r Role) string { return l.columns[r] }

// MustExist reports whether a table without the role's column cannot be relayed. For a mapped table
// that is every column listed. For the native table it is what makes a record, and what decides its
// topic and partition; a column that only adds a header may be absent.
func (l Layout) MustExist(r Role) bool {
	if l.mapped {
		return l.columns[r] != ""
	}
	switch r {
	case TenantID, ContentType, SchemaID, SchemaVersion, Headers, CreatedAt:
		return false
	default:
		return true
	}
}

// NotNull reports whether a row with NULL in the role's column is malformed.
func (l Layout) NotNull(r Role) bool {
	switch r {
	case EventID, EventType:
		return true
	case AggregateType, AggregateID, OccurredAt:
		return !l.mapped
	case Payload:
		return !l.Tombstones()
	default:
		return false
	}
}

// Tombstones reports whether NULL in the payload column means a record with a null value. Only the
// native table says so; elsewhere NULL is a malformed row.
func (l Layout) Tombstones() bool { return !l.mapped }
