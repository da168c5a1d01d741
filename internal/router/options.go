package router

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/record"
)

// Options configure a router, as package config has validated them.
type Options struct {
	// Tables are the outbox tables; at least one.
	Tables []Table
	// Routes decide the topic of rows that do not name one; the first that matches wins.
	Routes []Route
	// TopicPrefix is put before the topic of every row.
	TopicPrefix string
	// Source is the setting ce_source, of every record; "" leaves it to each table.
	Source string
	// Of these a router uses Unroutable and Malformed; "" is stop.
	cdc.Policies
	// Reserved are the relay's own topics, which hold no events; "" is none.
	Reserved []string
	// Headers are added at the end of every record.
	Headers []cdc.Header
	// Skip is errors.skip: the IDs of events to leave out, valid or not.
	Skip []string
	// EveryRow ignores what tables leave out, for rows that somebody has asked for.
	EveryRow bool
}

// Table is an outbox table.
type Table struct {
	Name outbox.Name
	// Layout says what the parts of an event are made of.
	Layout outbox.Layout
	// Shape says what its records are made of; nil is the zero Shape.
	Shape *record.Shape
	// Source is the table's ce_source where Options.Source is empty; see [DefaultSource].
	Source string
	// Only holds regular expressions by role or column, as in [Route.Match]. A row that one of them does not match is left out, before
	// anything else is read of it. An empty Only leaves out no row.
	Only map[string]string
}

// Route gives a topic to the rows that match.
type Route struct {
	// Match holds regular expressions (Go's, RE2) by role, column, "headers." with the name of a member, or "table", the table's name
	// without its schema. All must match the whole value, in its case; NULL matches nothing. An empty Match takes every row.
	Match map[string]string
	// Topic is the topic's name. ${name} stands for a named group of the expressions in Match, else for
	// what it stands for in Match. A row for which one of them is NULL or empty cannot be routed.
	Topic string
	// Sanitize replaces each byte of what stands for a name that a topic's name cannot have by "_".
	Sanitize bool
	// Key takes the place of the table's key, and Partition is the number of the partition; NULL or empty is no key, and the partition of the
	// key. nil: the table's key, and its partition.
	Key, Partition *outbox.Part
}

// DefaultSource returns "/<database>/<table>", the ce_source of a table for which none is configured,
// escaped as a URI reference must be.
func DefaultSource(database, table string) string {
	return "/" + url.PathEscape(database) + "/" + url.PathEscape(table)
}

// skipSet holds the ids to skip as records carry them: UUIDs in lower case, the others as they are.
func skipSet(ids []string) map[string]struct{} {
	set := make(map[string]struct{}, 2*len(ids))
	for _, id := range ids {
		set[id] = struct{}{}
		if len(id) == 36 {
			set[strings.ToLower(id)] = struct{}{}
		}
	}
	return set
}

// table is a configured table.
type table struct {
	setting string // "tables[0]"
	name    string // without its schema
	layout  outbox.Layout
	shape   *record.Shape
	source  []byte
	only    []only
}

func newTables(o Options) map[string]*table {
	tables := make(map[string]*table, len(o.Tables))
	for i, t := range o.Tables {
		made := &table{
			setting: fmt.Sprintf("tables[%d]", i), name: t.Name.Table, layout: t.Layout, shape: cmp.Or(t.Shape, new(record.Shape)), source: []byte(cmp.Or(o.Source, t.Source)),
		}
		if !o.EveryRow {
			made.only = newOnly(t.Only)
		}
		tables[t.Name.String()] = made
	}
	return tables
}
