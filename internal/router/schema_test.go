package router_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/router"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// A table without a column that records need stops the relay, by Check or at its first row.
func TestMissingColumns(t *testing.T) {
	for column := range strings.FieldsSeq("event_id aggregate_type aggregate_id event_type topic partition_key payload occurred_at") {
		table := without(native(), column)
		says := "column " + column + " of public.outbox is missing. Fix: add it to the table, or name the column that holds the " +
			column + " under tables[0].columns"
		_, err := route(t, options(), batch(table, order()))
		stopped(t, err, cdc.ClassConfig, "missing_column", says)
		stopped(t, newRouter(t, options()).Check(table), cdc.ClassConfig, "missing_column", says)
	}
	table := without(native(), "tenant_id", "content_type", "schema_id", "schema_version", "headers", "created_at")
	m := one(t, options(), table, order())
	if got := len(m.Headers); got != 9 {
		t.Errorf("%d headers without the optional columns:\n%s", got, golden(m))
	}
}

// A row that was written when the table lacked a column which it has now is malformed. If the table has lost a column of the row's, that
// one may have been renamed: the relay stops whatever the policy, and only errors.skip goes past the row.
func TestColumnAddedSince(t *testing.T) {
	for column := range strings.FieldsSeq("event_id aggregate_type aggregate_id event_type topic partition_key payload occurred_at region") {
		now := native()
		now.Columns = append(now.Columns, cdc.Column{Name: "region"})
		table := without(native(), column)
		table.Now = now
		o := options()
		o.Routes = append(o.Routes, router.Route{Match: map[string]string{"region": "eu"}, Topic: "eu"})
		where, past := "event "+eventID+" of public.outbox", `or go past it with errors.malformed: dead_letter or errors.skip: ["`+eventID+`"]`
		if column == "event_id" {
			where, past = "row 0 of transaction 0/16B3748, committed at 2026-01-02T03:04:06.5Z, in public.outbox", ", or set errors.malformed: dead_letter to go past it"
		}
		_, err := route(t, o, batch(table, order()))
		stopped(t, err, cdc.ClassRuntime, "malformed", where, "it was logged without column "+column+", which the table has now", past)
		o.Malformed = cdc.PolicyDeadLetter
		dst, err := route(t, o, batch(table, order(), order()))
		if err != nil || len(dst.Refused) != 2 || dst.Refused[1].Reason != "malformed" || len(dst.Messages) > 0 {
			t.Errorf("without %s: %+v, %v", column, dst, err)
		}
		renamed := without(native(), column)
		renamed.Columns, renamed.Now = append(renamed.Columns, cdc.Column{Name: "old_name"}), now
		o.Malformed = cdc.PolicyDrop
		_, err = route(t, o, batch(renamed, order()))
		stopped(t, err, cdc.ClassConfig, "missing_column", "no column "+column+", but old_name, which it does not have now", "if old_name was renamed, rename it back")
		if column != "event_id" {
			o.Skip = []string{eventID}
			if dst, err = route(t, o, batch(renamed, order())); err != nil || len(dst.Drops) != 1 {
				t.Errorf("skipped without %s: %+v, %v", column, dst, err)
			}
		}
		table.Now = without(native(), column)
		_, err = route(t, options(), batch(table, order()))
		if column != "region" {
			stopped(t, err, cdc.ClassConfig, "missing_column", "column "+column+" of public.outbox is missing. Fix: add it to the table")
		}
	}
}

func without(t *cdc.Table, columns ...string) *cdc.Table {
	t.Columns = slices.DeleteFunc(t.Columns, func(c cdc.Column) bool { return slices.Contains(columns, c.Name) })
	return t
}

func TestUnknownTable(t *testing.T) {
	table := native()
	table.Name = "other"
	_, err := route(t, options(), batch(table, order()))
	stopped(t, err, cdc.ClassConfig, "unknown_table", "table public.other sends rows but is not configured. Fix: add it under tables")
}

// Columns that come, go and move between batches are found by their names.
func TestSchemaChanges(t *testing.T) {
	r := newRouter(t, options())
	for i := range 200 { // more schemas than are kept
		table := native()
		if i%2 == 1 {
			slices.Reverse(table.Columns)
			table.Columns = append([]cdc.Column{{Name: "new"}}, table.Columns...)
		}
		b := batch(table, order().with("new", "x"))
		dst := &cdc.Routed{}
		routeInto(t, r, b, dst)
		if got := golden(&dst.Messages[0]); got != goldenFull {
			t.Fatalf("schema %d: %s", i, got)
		}
	}
}

// A mapped table: only the columns that are named play roles.
func TestMappedTable(t *testing.T) {
	o := options()
	o.Tables = []router.Table{{Name: outbox.Name{Schema: "app", Table: "Events"}, Source: "/legacy", Layout: mapped(t, map[string]string{
		"event_id": "id", "event_type": "kind", "payload": "body", "partition_key": "routing_key", "tenant_id": "org", "occurred_at": "at",
	})}}
	o.Routes = []router.Route{{Match: map[string]string{"tenant_id": ".+", "topic": "t.*"}, Topic: "${topic}.${tenant_id}.${org}"}}
	table := &cdc.Table{Schema: "app", Name: "Events"}
	for name := range strings.FieldsSeq("id kind body routing_key org at topic aggregate_id headers tenant_id") {
		table.Columns = append(table.Columns, cdc.Column{Name: name})
	}
	r := row{
		"id": "01J", "kind": "done", "body": "{}", "routing_key": "k", "org": "acme", "at": "2026-01-02T03:04:05+02:00",
		"topic": "tt", "aggregate_id": "not ours", "headers": "not ours", "tenant_id": "not ours",
	}
	const want = `topic tt.acme.acme
key "k"
value "{}"
ce_id: "01J"
ce_specversion: "1.0"
ce_source: "/legacy"
ce_type: "done"
ce_time: "2026-01-02T03:04:05+02:00"
ce_tenant: "acme"
ce_sequence: "00000000016b3748-00000000"
ce_committime: "2026-01-02T03:04:06.5Z"
`
	if got := golden(one(t, o, table, r)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	_, err := route(t, o, batch(table, r.without("body")))
	stopped(t, err, cdc.ClassRuntime, "malformed", "event 01J of app.Events is malformed: column body is NULL")
	_, err = route(t, o, batch(without(table, "org"), r))
	stopped(t, err, cdc.ClassConfig, "missing_column", "column org of app.Events is missing", "tables[0].columns")
}

// A payload may be an object in a document. A key may not, and a dead letter then has none.
func TestObjectsInDocuments(t *testing.T) {
	o := options()
	o.Malformed = cdc.PolicyDeadLetter
	layout, err := outbox.Mapped(map[string]outbox.Part{
		"event_id": outbox.Of("event_id"), "event_type": outbox.Of("event_type"), "topic": outbox.Of("topic"), "aggregate_id": outbox.Of("aggregate_id"),
		"payload": {JSON: "headers", Path: "$.data"}, "partition_key": {JSON: "headers", Path: "$.key"},
	})
	testenv.Must(t, err)
	o.Tables[0].Layout = layout
	for key, says := range map[string]string{`"k1"`: "", "17": "", `{"id": 17}`: "is an object or an array", "[17]": "is an object or an array"} {
		dst, err := route(t, o, batch(native(), order().with("headers", `{"data": {"a": [1]}, "key": `+key+`}`)))
		switch {
		case err != nil || len(dst.Messages)+len(dst.Refused) != 1:
			t.Errorf("%s: %v", key, err)
		case says == "" && (quoted(dst.Messages[0].Value) != `"{\"a\": [1]}"` || string(dst.Messages[0].Key) != strings.Trim(key, `"`)):
			t.Errorf("%s: %s", key, golden(&dst.Messages[0]))
		case says != "" && (dst.Refused[0].Key != nil || dst.Refused[0].Reason != "malformed" || !strings.Contains(dst.Refused[0].Err.Error(), "(aggregate 42) is malformed: $.key of column headers "+says)):
			t.Errorf("%s: %+v", key, dst.Refused[0])
		}
	}
}

// What a NULL payload becomes is said for each table.
func TestNullPayload(t *testing.T) {
	foreign := mapped(t, map[string]string{"event_id": "event_id", "event_type": "event_type", "payload": "payload"})
	for _, tt := range []struct {
		layout outbox.Layout
		null   outbox.NullPayload
		want   string // the value; "" is malformed
	}{
		{outbox.Native(), "", "null"},
		{outbox.Native(), outbox.NullEmpty, `""`},
		{outbox.Native(), outbox.NullMalformed, ""},
		{foreign, "", ""},
		{foreign, outbox.NullTombstone, "null"},
		{foreign, outbox.NullEmpty, `""`},
	} {
		o := options()
		o.Tables[0].Layout = tt.layout
		o.Tables[0].Layout.OnNull = tt.null
		dst, err := route(t, o, batch(native(), order().without("payload")))
		if tt.want == "" {
			stopped(t, err, cdc.ClassRuntime, "malformed", "column payload is NULL")
		} else if err != nil || quoted(dst.Messages[0].Value) != tt.want {
			t.Errorf("%+v: %v, want %s", tt, err, tt.want)
		}
	}
}

func TestMappedColumnOfTheWrongKind(t *testing.T) {
	o := options()
	o.Tables[0].Layout = mapped(t, map[string]string{"event_id": "event_id", "event_type": "event_type", "payload": "payload", "occurred_at": "schema_version"})
	table := native()
	column := &table.Columns[table.Index("schema_version")]
	for _, column.Form = range []cdc.Form{cdc.FormInt, cdc.FormText} {
		_, err := route(t, o, batch(table, order()))
		stopped(t, err, cdc.ClassConfig, "missing_column", "column schema_version of public.outbox is not a time", "tables[0].columns.occurred_at")
		column.Type = cdc.TypeInteger // what MySQL prints
	}
}

// A route's column that the only table lacks is a mistake; with several tables it may be another's.
func TestRouteOnAColumnThatIsNotThere(t *testing.T) {
	o := options()
	o.Routes = []router.Route{{Match: map[string]string{"region": ".*"}, Topic: "a"}, {Topic: "b.${shard}"}}
	_, err := route(t, o, batch(native(), order().without("topic")))
	stopped(t, err, cdc.ClassConfig, "missing_column", "routes[0].match.region: public.outbox has no column region. Fix: add it to the table, or change the route")
	o.Routes[0].Match = nil
	o.Routes[0].Topic = "a.${region}"
	_, err = route(t, o, batch(native(), order().without("topic")))
	stopped(t, err, cdc.ClassConfig, "missing_column", "routes[0].topic: public.outbox has no column region")

	o.Tables = append(o.Tables, router.Table{Name: outbox.Name{Schema: "public", Table: "sharded"}, Source: "/s"})
	o.Routes = []router.Route{{Match: map[string]string{"region": ".*"}, Topic: "a"}, {Match: map[string]string{"tenant_id": "acme"}, Topic: "b"}, {Topic: "c.${shard}"}}
	if got := one(t, o, native(), order().without("topic")).Topic; got != "b" {
		t.Errorf("topic %s", got)
	}
	_, err = route(t, o, batch(native(), order().without("topic", "tenant_id")))
	stopped(t, err, cdc.ClassRuntime, "unroutable", "${shard}, which is NULL or empty")
	other := native()
	other.Name = "sharded"
	other.Columns = append(other.Columns, cdc.Column{Name: "shard"})
	m := one(t, o, other, order().without("topic", "tenant_id").with("shard", "9"))
	if source, _ := header(m, "ce_source"); m.Topic != "c.9" || source != "/s" {
		t.Errorf("topic %s, source %s", m.Topic, source)
	}
}

// An unused column may have a character set that the source does not know; a used one may not. A route that takes no row of the table uses
// none.
func TestForeignColumns(t *testing.T) {
	foreign := func(column string) *cdc.Table {
		table := native()
		for i := range table.Columns {
			if table.Columns[i].Name == column {
				table.Columns[i].Form = cdc.FormForeign
			}
		}
		table.Columns = append(table.Columns, cdc.Column{Name: "note", Form: cdc.FormForeign})
		return table
	}
	o := options()
	o.Routes = []router.Route{{Match: map[string]string{"note": ".*", "table": "another"}, Topic: "a"}}
	if err := newRouter(t, o).Check(foreign("")); err != nil {
		t.Error(err)
	}
	stopped(t, newRouter(t, options()).Check(foreign("aggregate_id")), cdc.ClassConfig, "charset", "column aggregate_id of public.outbox is in a character set")
	delete(o.Routes[0].Match, "table")
	stopped(t, newRouter(t, o).Check(foreign("")), cdc.ClassConfig, "charset", "column note of")
}
