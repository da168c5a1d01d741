package router

import "github.com/cdc-relay/cdc-relay/internal/outbox"

// Needs reports whether a part of an event or a route reads a column of a table, "schema.name". Of a table that is not configured it
// needs none.
func (r *Router) Needs(table, column string) bool {
	t := r.tables[table]
	if t == nil {
		return false
	}
	for role := range outbox.Roles {
		if t.layout.Column(role) == column {
			return true
		}
	}
	for _, name := range r.names {
		if t.named(name) == column {
			return true
		}
	}
	return false
}

// named returns the column that a route means: that of the part with the name, or the one of that name.
func (conf *table) named(name string) string {
	if role, ok := outbox.ParseRole(name); ok && conf.layout.Column(role) != "" {
		return conf.layout.Column(role)
	}
	return name
}
