package router

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// Warnings names what is valid and probably a mistake: a route that can never match, and a column that the tables of setup do
// not have.
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
			all = append(all, strangeColumn(r.settingOf(slot, nil), name))
		}
	}
	for i := range r.routes {
		parts := r.routes[i].placed()
		for _, setting := range slices.Sorted(maps.Keys(parts)) {
			for _, name := range parts[setting].Columns() {
				if _, known := outbox.ParseRole(name); !known && r.allNative() {
					all = append(all, strangeColumn(setting, name))
				}
			}
		}
	}
	for _, t := range slices.SortedFunc(maps.Values(r.tables), func(a, b *table) int { return cmp.Compare(a.setting, b.setting) }) {
		all = append(all, t.warnings()...)
	}
	return all
}

func strangeColumn(setting, name string) error {
	return cdc.Fixable("correct the name, or add the column to the table",
		"%s reads the column %s, which the table that setup creates does not have", setting, name)
}

// warnings names columns that the table's conditions, value or headers read and the table of setup does not have.
func (t *table) warnings() []error {
	if t.layout.Foreign() {
		return nil
	}
	columns := t.shape.Columns()
	for _, o := range t.only {
		columns = append(columns, t.part(o.name).Columns()...)
	}
	var all []error
	slices.Sort(columns)
	for _, name := range slices.Compact(columns) {
		if _, known := outbox.ParseRole(name); !known {
			all = append(all, strangeColumn(t.setting, name))
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
