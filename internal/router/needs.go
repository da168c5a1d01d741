package router

import (
	"slices"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// Needs reports whether a part of an event, a condition or a route reads a column of a table, "schema.name". Of a table that is not configured it
// needs none.
func (r *Router) Needs(table, column string) bool {
	t := r.tables[table]
	return t != nil && (t.layout.Reads(column) || slices.Contains(t.shape.Columns(), column) ||
		slices.ContainsFunc(t.only, func(o only) bool { return slices.Contains(t.part(o.name).Columns(), column) }) ||
		slices.ContainsFunc(r.names, func(name string) bool { return slices.Contains(t.read(name).Columns(), column) }))
}

// tableName is what routes call the name of a row's table, without its schema, and memberPrefix begins what they call a member of the
// part headers.
const (
	tableName    = "table"
	memberPrefix = "headers."
)

// read returns what a route means by a name: the table's own, the part of that role, or else the column of that name.
func (t *table) read(name string) *outbox.Part {
	if name == tableName {
		return &outbox.Part{Const: t.name}
	}
	return t.part(name)
}

// part returns the part of the role with that name, a member of headers, or else the column.
func (t *table) part(name string) *outbox.Part {
	if role, ok := outbox.ParseRole(name); ok && t.layout.Has(role) {
		return t.layout.Part(role)
	}
	if member, ok := strings.CutPrefix(name, memberPrefix); ok && t.layout.Has(outbox.Headers) {
		part := outbox.Member(t.layout.Column(outbox.Headers), member)
		return &part
	}
	part := outbox.Of(name)
	return &part
}
