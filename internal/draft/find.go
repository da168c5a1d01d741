package draft

import (
	"slices"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// id finds the event's ID. An ID that two rows share makes consumers drop the second, so that a column that is unique by itself comes first, and
// one that is unique only together with another is none.
func (g *guess) id() {
	const role = outbox.EventID
	kept, second := func(c cdc.Column) bool { return !isState(c.Name) && g.facts.Columns[c.Name].NotNull }, 1
	for i, look := range []func(){
		func() { g.named(role, g.isUnique) },
		func() { g.named(role, func(c cdc.Column) bool { return !g.isUnique(c) && !g.inUnique(c) }) },
		func() {
			g.byType(role, func(c cdc.Column) bool { return kept(c) && g.isUnique(c) }, cdc.TypeUUID, cdc.TypeInteger, cdc.TypeChar, cdc.TypeText)
		},
		func() { g.named(role, func(c cdc.Column) bool { return c.Type == cdc.TypeUUID }) },
		func() { g.byType(role, kept, cdc.TypeUUID) },
		func() { g.byType(role, func(c cdc.Column) bool { return !isState(c.Name) }, cdc.TypeUUID) },
	} {
		if g.found[role] == nil || i == second && !g.debezium { // as one of the others
			look()
		}
	}
}

// isUnique reports whether a unique index keeps any two rows from having the same in the column, or the database numbers them. PostgreSQL has
// the key of a partitioned table with the time that it is partitioned by.
func (g *guess) isUnique(c cdc.Column) bool {
	if g.facts.Columns[c.Name].Counter {
		return true
	}
	return slices.ContainsFunc(g.facts.Unique, func(columns []string) bool {
		return slices.Contains(columns, c.Name) && !slices.ContainsFunc(columns, func(other string) bool {
			i := g.table.Index(other)
			return other != c.Name && (i < 0 || !slices.Contains(times(), g.table.Columns[i].Type))
		})
	})
}

// inUnique reports whether a unique index has the column.
func (g *guess) inUnique(c cdc.Column) bool {
	return slices.ContainsFunc(g.facts.Unique, func(columns []string) bool { return slices.Contains(columns, c.Name) })
}

// isSchemaVersion is false for a bare version where no other column tells of what: it may count the updates of the row.
func (g *guess) isSchemaVersion(c cdc.Column) bool {
	return folded(c.Name) != "version" || g.found[outbox.EventType] != nil || g.found[outbox.SchemaID] != nil
}

// time finds the time of a row by its type. A time that can be NULL is filled in later, unless the database does so at the insert.
func (g *guess) time() {
	if g.found[outbox.OccurredAt] != nil || g.found[outbox.CreatedAt] != nil {
		return
	}
	for _, named := range []func(string) bool{
		func(column string) bool { return !isTimeOf(column, states) },
		func(column string) bool { return isTimeOf(column, deeds) },
	} {
		if g.found[outbox.OccurredAt] == nil {
			g.byType(outbox.OccurredAt, func(c cdc.Column) bool {
				f := g.facts.Columns[c.Name]
				return (f.NotNull || f.Default != "") && named(c.Name) && !isTimeOf(c.Name, plans)
			}, times()...)
		}
	}
}

// payload finds the payload. A short text is one only by its name, and, unless the name says payload, only where nothing else is.
func (g *guess) payload() {
	const short = 1024
	long := func(c cdc.Column) bool {
		length := g.facts.Columns[c.Name].Length
		return c.Type != cdc.TypeText || length == 0 || length > short
	}
	for _, look := range []func(){
		func() {
			g.named(outbox.Payload, func(c cdc.Column) bool { return long(c) || strings.Contains(folded(c.Name), "payload") })
		},
		func() {
			g.byType(outbox.Payload, func(c cdc.Column) bool { return long(c) && !isState(c.Name) }, cdc.TypeJSON, cdc.TypeBytes, cdc.TypeText)
		},
		func() { g.byNameUnlessFound(outbox.Payload) },
	} {
		if g.found[outbox.Payload] == nil {
			look()
		}
	}
}

// doubt is what may be wrong with a column.
func (g *guess) doubt(role outbox.Role, c cdc.Column) string {
	switch {
	case role == outbox.EventID && !g.isUnique(c):
		return ", but no unique index has it alone: verify that no two rows share it"
	case role == outbox.Topic && (!strings.Contains(folded(c.Name), "topic") || g.facts.Columns[c.Name].Default != ""):
		return "; its text must be a topic's name, and no address such as kafka://topic/orders"
	case role == outbox.SchemaVersion && folded(c.Name) == "version":
		return ", unless it is another version: then remove the line"
	case role == outbox.Headers && c.Type == cdc.TypeText:
		return "; it has to hold JSON objects"
	case c.Type == cdc.TypeLocalTime:
		return ", read as UTC unless time_zone is set"
	}
	return ""
}
