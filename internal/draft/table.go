package draft

import (
	"slices"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// Table is a table and what each part of its events is made of.
type Table struct {
	// Name is as the configuration spells it.
	Name string
	// Native is whether it is the table that setup creates, which needs no parts.
	Native bool
	// Parts are in the order of the roles.
	Parts []Part
	// State are the columns with the state of delivery, and Unused the others that are in no part.
	State, Unused []string
	// Generated are columns that the WAL does not have.
	Generated []string
	// Debezium is whether it is the table of Debezium's outbox event router, whose records it gets.
	Debezium bool
	// Null is whether the payload can be NULL.
	Null bool

	bare string // the name without its schema
}

// Part is what a part of an event is made of.
type Part struct {
	outbox.Part

	Role outbox.Role
	// Why is the reason, without a full stop.
	Why string
}

// Of proposes the parts of a table of which the catalog says f. What it proposes can be read from the table's rows, whether or not it is
// what they mean. An error says that no column can be the event's ID, or the payload.
func Of(name string, t *cdc.Table, f *cdc.Facts) (Table, error) {
	if isNative(t) {
		return Table{Name: name, Native: true}, nil
	}
	g := &guess{table: withJSON(t, f), facts: f}
	if g.debezium = g.isDebezium(); g.debezium {
		for role, column := range debezium() {
			g.set(role, outbox.Of(column), "by name: "+parts()[role].means)
		}
	}
	g.id()
	for role := range outbox.Roles {
		switch {
		case g.found[role] != nil, role == outbox.EventID, role == outbox.Payload, g.debezium && role >= outbox.Topic && role < outbox.Payload:
			// found, found below, or what the router makes nothing of
		case role >= outbox.OccurredAt:
			g.named(role, func(c cdc.Column) bool { return g.facts.Columns[c.Name].NotNull })
			g.byNameUnlessFound(role)
		default:
			g.byNameUnlessFound(role)
		}
	}
	if g.found[outbox.EventID] == nil {
		return Table{}, cdc.Usage("give the table a column with an ID that no other row has, of type uuid, text or a whole number",
			"table %s has no column that can be the event's ID", t)
	}
	g.time()
	g.payload()
	if g.found[outbox.Payload] == nil {
		return Table{}, cdc.Usage("write the configuration by hand, with its columns in tables[].value: see docs/records.md",
			"table %s has no column that can be the payload", t)
	}
	g.without()
	g.prefix()
	return g.draft(name), nil
}

// withJSON returns the table with the type JSON for columns that a check keeps to it.
func withJSON(t *cdc.Table, f *cdc.Facts) *cdc.Table {
	of := &cdc.Table{Schema: t.Schema, Name: t.Name, Columns: slices.Clone(t.Columns)}
	for i := range of.Columns {
		if c := &of.Columns[i]; f.Columns[c.Name].JSON {
			c.Type = cdc.TypeJSON
		}
	}
	return of
}

// isNative reports whether a table has the columns of the native one, and no other.
func isNative(t *cdc.Table) bool {
	return len(t.Columns) == int(outbox.Roles) &&
		!slices.ContainsFunc(t.Columns, func(c cdc.Column) bool { _, ok := outbox.ParseRole(c.Name); return !ok })
}

// guess finds the parts of a table.
type guess struct {
	table    *cdc.Table
	facts    *cdc.Facts
	debezium bool
	found    [outbox.Roles]*Part
	// others are further columns that a part could be.
	others [outbox.Roles][]string
}

// isDebezium reports whether the table has the columns that Debezium's outbox event router reads, in their spelling.
func (g *guess) isDebezium() bool {
	for _, column := range debezium() {
		if i := g.table.Index(column); i < 0 || g.table.Columns[i].Form == cdc.FormForeign {
			return false
		}
	}
	return true
}

func (g *guess) set(role outbox.Role, part outbox.Part, why string) {
	g.found[role] = &Part{Role: role, Part: part, Why: why}
}

func (g *guess) column(role outbox.Role) string {
	if g.found[role] == nil {
		return ""
	}
	return g.found[role].Column
}

func (g *guess) used(column string) bool {
	return slices.ContainsFunc(g.found[:], func(p *Part) bool { return p != nil && slices.Contains(p.Columns(), column) })
}

// free returns the columns of some types that are in no part.
func (g *guess) free(of kinds) []cdc.Column {
	var list []cdc.Column
	for _, c := range g.table.Columns {
		if slices.Contains(of, c.Type) && c.Form != cdc.FormForeign && !g.used(c.Name) {
			list = append(list, c)
		}
	}
	return list
}

// byNameUnlessFound takes the column with the likeliest name.
func (g *guess) byNameUnlessFound(role outbox.Role) {
	if g.found[role] == nil {
		g.named(role, func(cdc.Column) bool { return true })
	}
}

// named takes the column with the likeliest name of those that fit.
func (g *guess) named(role outbox.Role, fits func(cdc.Column) bool) {
	k := parts()[role]
	for name := range strings.FieldsSeq(k.names) {
		for _, c := range g.free(k.kinds) {
			if folded(c.Name) == name && fits(c) && (role != outbox.SchemaVersion || g.isSchemaVersion(c)) {
				g.take(role, c, "by name: "+k.means+g.doubt(role, c))
			}
		}
	}
}

// byType takes the first column that fits of the first type that there is.
func (g *guess) byType(role outbox.Role, fits func(cdc.Column) bool, of ...cdc.Type) {
	for _, kind := range of {
		for _, c := range g.free(kinds{kind}) {
			if fits(c) {
				g.take(role, c, "by type, as no name tells: "+parts()[role].means+g.doubt(role, c))
			}
		}
		if g.found[role] != nil {
			return
		}
	}
}

// take makes a column the part, or one of the others.
func (g *guess) take(role outbox.Role, c cdc.Column, why string) {
	if g.found[role] == nil {
		g.set(role, outbox.Of(c.Name), why)
	} else {
		g.others[role] = append(g.others[role], c.Name)
	}
}

// without makes parts that have no column of their own of others.
func (g *guess) without() {
	if created := g.found[outbox.CreatedAt]; created != nil && g.found[outbox.OccurredAt] == nil {
		g.found[outbox.OccurredAt], g.found[outbox.CreatedAt] = created, nil
		created.Role = outbox.OccurredAt
	}
	if tenant := g.column(outbox.TenantID); tenant != "" && g.found[outbox.AggregateID] == nil && g.found[outbox.PartitionKey] == nil {
		g.set(outbox.PartitionKey, outbox.Of(tenant), "no other key: events of a tenant stay in order")
	}
	if key := g.column(outbox.PartitionKey); key != "" && g.found[outbox.AggregateID] != nil {
		g.found[outbox.AggregateID].Why = "by name: the key where " + key + " is NULL"
	}
	if g.found[outbox.EventType] == nil {
		g.eventType()
	}
}

// prefix puts the table's name before an ID that is a number.
func (g *guess) prefix() {
	id, t := g.found[outbox.EventID], g.table
	numbers := kinds{cdc.TypeInteger, cdc.TypeDecimal}
	if g.debezium || !slices.Contains(numbers, t.Columns[t.Index(id.Column)].Type) || plain(id.Column) != id.Column {
		return
	}
	id.Part = outbox.Part{Template: topicName(strings.TrimPrefix(t.Schema+"."+t.Name, "public.")) + "-${" + id.Column + "}"}
	id.Why += "; with the table's name before it, because other tables have the same numbers"
}

// eventType makes the type constant, so that no event is refused for the lack of it.
func (g *guess) eventType() {
	why := "no column looks like the type of the event: say what it is"
	if document := g.document(); document != "" {
		why += ", or where, as in " + written(&outbox.Part{JSON: document, Path: "$.type"})
	}
	g.set(outbox.EventType, outbox.Part{Const: g.table.Name}, why)
}

// document is a column of JSON that may have what no column of its own has; "" if there is none.
func (g *guess) document() string {
	for _, role := range []outbox.Role{outbox.Headers, outbox.Payload} {
		if i := g.table.Index(g.column(role)); i >= 0 && g.table.Columns[i].Type == cdc.TypeJSON {
			return g.column(role)
		}
	}
	return ""
}

// draft returns what was found.
func (g *guess) draft(name string) Table {
	t := Table{Name: name, bare: g.table.Name, Debezium: g.debezium, Null: !g.facts.Columns[g.column(outbox.Payload)].NotNull}
	for role, part := range g.found {
		if part == nil {
			continue
		}
		others := slices.DeleteFunc(g.others[role], g.used)
		if len(others) > 0 {
			part.Why += "; it could be " + strings.Join(others, " or ") + " too"
		}
		t.Parts = append(t.Parts, *part)
	}
	for _, c := range g.table.Columns {
		switch {
		case g.used(c.Name):
		case isState(c.Name):
			t.State = append(t.State, c.Name)
		default:
			t.Unused = append(t.Unused, c.Name)
		}
	}
	return t
}

// has reports whether a part of the role exists.
func (t *Table) has(role outbox.Role) bool {
	return t.Native || slices.ContainsFunc(t.Parts, func(p Part) bool { return p.Role == role })
}
