package router

import (
	"slices"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// Needs reports whether [Router.Columns] has a column.
func (r *Router) Needs(table, column string) bool { return slices.Contains(r.Columns(table), column) }

// Columns returns the columns of a table, "schema.name", that a part of an event, a condition or a route reads; some may be listed twice. Of a
// table that is not configured it returns none.
func (r *Router) Columns(table string) []string {
	t := r.tables[table]
	if t == nil {
		return nil
	}
	columns := slices.Concat(t.layout.Columns(), t.shape.Columns())
	for _, o := range t.only {
		columns = append(columns, t.part(o.name).Columns()...)
	}
	for _, name := range r.names {
		columns = append(columns, t.read(name).Columns()...)
	}
	for i := range r.routes {
		for _, part := range r.routes[i].placed() {
			columns = append(columns, part.Columns()...)
		}
	}
	return columns
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
