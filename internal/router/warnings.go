package router

import (
	"slices"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// Warnings names what is valid and probably a mistake: a route that can never match, and a column that routes read for match or topic and
// the tables of setup do not have: with several tables such a route matches no row. All other columns are verified against the table.
func (r *Router) Warnings() []error {
	var all []error
	for i := range r.routes {
		for j := range i {
			if r.routes[j].covers(&r.routes[i]) {
				all = append(all, cdc.Fixable("move it before that one, or remove it",
					"%s can never match: %s takes every row that it would", r.routes[i].setting, r.routes[j].setting))
				break
			}
		}
	}
	for slot, name := range r.names {
		if _, known := outbox.ParseRole(name); !known && name != tableName && !strings.HasPrefix(name, memberPrefix) && r.allNative() {
			all = append(all, cdc.Fixable("correct the name, or add the column to the table",
				"%s reads the column %s, which the table that setup creates does not have", r.settingOf(slot, nil), name))
		}
	}
	return all
}

// covers reports whether every row that matches other matches c, because c has no matcher of its own.
func (c *route) covers(other *route) bool {
	return !slices.ContainsFunc(c.match, func(m matcher) bool {
		return !slices.ContainsFunc(other.match, func(o matcher) bool { return o.slot == m.slot && o.re.String() == m.re.String() })
	})
}

func (r *Router) allNative() bool {
	for _, t := range r.tables {
		if t.layout.Foreign() {
			return false
		}
	}
	return true
}
