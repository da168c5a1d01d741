package outbox

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Layout says what each part of an event is made of in a table. The zero Layout is that of the table that [PostgresTable] and [MySQLTable]
// create: every role has a column of its name.
type Layout struct {
	// OnNull is what a NULL payload becomes; "" is a tombstone in the native table, and malformed in a mapped one.
	OnNull NullPayload
	// Zone is where the clocks were that wrote times without a zone; nil is UTC.
	Zone *cdc.Zone
	// TextID is whether the database shows bytes in another way than text: they cannot be an ID there.
	TextID bool

	mapped *[Roles]Part // of another software's table
}

// Native returns the zero Layout.
func Native() Layout { return Layout{} }

// NullPayload is what a NULL payload becomes.
type NullPayload string

// The choices.
const (
	// NullTombstone makes a record with a null value.
	NullTombstone NullPayload = "tombstone"
	// NullEmpty makes a record with an empty value.
	NullEmpty NullPayload = "empty"
	// NullMalformed makes the row malformed.
	NullMalformed NullPayload = "malformed"
)

// Mapped returns the layout of another software's table from parts by the names of their roles. A role that is not listed has
// no part, even if the table has a column of that name. event_id must be listed. An empty map is the native layout.
func Mapped(parts map[string]Part) (Layout, error) {
	if len(parts) == 0 {
		return Native(), nil
	}
	l := Layout{mapped: new([Roles]Part)}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		role, ok := ParseRole(name)
		if !ok {
			return Layout{}, cdc.Fixable("use one of "+strings.Join(strings.Fields(roleNames), ", "), "%s: not a part of an event", name)
		}
		l.mapped[role] = parts[name]
		if err := l.mapped[role].Check(role); err != nil {
			return Layout{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	if !l.Has(EventID) {
		return Layout{}, cdc.Fixable("name the column that holds it", "%s: missing", EventID)
	}
	return l, nil
}

// Foreign reports whether the table belongs to other software: [Mapped] made the layout of some parts.
func (l Layout) Foreign() bool { return l.mapped != nil }

// Part returns what the role's part is made of.
func (l Layout) Part(r Role) *Part {
	if l.mapped == nil {
		return &Part{Column: r.String()}
	}
	return &l.mapped[r]
}

// Has reports whether the role has a part.
func (l Layout) Has(r Role) bool { return *l.Part(r) != Part{} }

// Column returns the column that holds the role's part as it is, or, of an event's ID, behind [Layout.IDPrefix]; "" if none does.
func (l Layout) Column(r Role) string {
	part := l.Part(r)
	switch {
	case part.Encoding != "":
		return ""
	case r == EventID:
		_, column := part.ID()
		return column
	}
	return part.Column
}

// IDPrefix is the text that goes before the value of a column in the IDs of the table's events; "" for none.
func (l Layout) IDPrefix() string {
	prefix, _ := l.Part(EventID).ID()
	return prefix
}

// Columns returns the columns that parts read; some may be listed twice.
func (l Layout) Columns() []string {
	var columns []string
	for role := range Roles {
		columns = append(columns, l.Part(role).Columns()...)
	}
	return columns
}

// MustExist reports whether the table must have the columns of the role's part. A mapped table must have every column listed. The
// native table must have what a record, its topic and its partition need; columns that only add a header may be absent.
func (l Layout) MustExist(r Role) bool {
	if l.Foreign() {
		return l.Has(r)
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
		return !l.Foreign()
	case Payload:
		return l.Null() == NullMalformed
	default:
		return false
	}
}

// Null is what a NULL payload becomes.
func (l Layout) Null() NullPayload {
	switch {
	case l.OnNull != "":
		return l.OnNull
	case l.Foreign():
		return NullMalformed
	default:
		return NullTombstone
	}
}
