package outbox

import (
	"maps"
	"slices"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Layout maps roles to the columns of a table. The zero Layout has no columns; use [Native] or [Mapped].
type Layout struct {
	columns [Roles]string
	mapped  bool
}

// Native returns the layout of the table that [PostgresTable] and [MySQLTable] create: every role has a column of its name.
func Native() Layout {
	var l Layout
	copy(l.columns[:], strings.Fields(roleNames))
	return l
}

// Mapped returns the layout of another software's table from role names and their columns. A role that is not listed has
// no column, even if the table has a column of that name. event_id, event_type and payload must be listed. An empty map is
// the native layout.
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

// Column returns the role's column, "" if it has none.
func (l Layout) Column(r Role) string { return l.columns[r] }

// MustExist reports whether the table must have the role's column. A mapped table must have every column listed. The
// native table must have what a record, its topic and its partition need; columns that only add a header may be absent.
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

// Tombstones reports whether NULL in the payload column means a record with a null value. That is so in the native table;
// in a mapped table NULL is malformed.
func (l Layout) Tombstones() bool { return !l.mapped }
