package router_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/record"
	"github.com/cdc-relay/cdc-relay/internal/router"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// numbered returns options for a table whose IDs are numbers behind a text, and the table.
func numbered(tb testing.TB) (router.Options, *cdc.Table) {
	tb.Helper()
	layout, err := outbox.Mapped(map[string]outbox.Part{"event_id": {Template: "orders-${id}"}, "event_type": outbox.Of("type"), "payload": outbox.Of("body")})
	testenv.Must(tb, err)
	o := options()
	o.Tables[0].Layout = layout
	o.Routes = []router.Route{{Match: map[string]string{"event_id": "orders-1.*"}, Topic: "t.${event_id}"}, {Match: map[string]string{"type": "a"}, Topic: "t"}}
	t := &cdc.Table{Schema: "public", Name: "outbox", Columns: []cdc.Column{{Name: "id", Type: cdc.TypeInteger}, {Name: "type"}, {Name: "body"}}}
	return o, t
}

// behindText is the native table's layout with a text before the ID.
func behindText(tb testing.TB) outbox.Layout {
	tb.Helper()
	parts := map[string]outbox.Part{}
	for role := range outbox.Roles {
		parts[role.String()] = outbox.Of(role.String())
	}
	parts[outbox.EventID.String()] = outbox.Part{Template: "orders-${event_id}"}
	layout, err := outbox.Mapped(parts)
	testenv.Must(tb, err)
	return layout
}

// A text before the column is part of the ID wherever that is read: in the record, in routes, in what is dropped or refused.
func TestIDBehindText(t *testing.T) {
	o, table := numbered(t)
	o.Unroutable, o.Skip = cdc.PolicyDeadLetter, []string{"orders-3", "4"}
	event := row{"id": "2", "type": "a", "body": "x"}
	dst, err := route(t, o, batch(table, event, event.with("id", "3"), event.with("id", "5").with("type", "b"), event.with("id", "4"), event.with("id", "12")))
	testenv.Must(t, err)
	var ids []string
	for i := range dst.Messages {
		m := &dst.Messages[i]
		id, _ := header(m, "ce_id")
		ids = append(ids, string(m.ID)+" "+id+" "+m.Topic)
	}
	if want := []string{"orders-2 orders-2 t", "orders-4 orders-4 t", "orders-12 orders-12 t.orders-12"}; !slices.Equal(ids, want) || dst.LastEventID != "orders-12" {
		t.Errorf("published %q, the last %q", ids, dst.LastEventID)
	}
	if len(dst.Drops) != 1 || dst.Drops[0].EventID != "orders-3" {
		t.Errorf("dropped %+v", dst.Drops)
	}
	if len(dst.Refused) != 1 || string(dst.Refused[0].EventID) != "orders-5" || !strings.Contains(cdc.Explain(dst.Refused[0].Err), `event orders-5 of public.outbox has no topic`) ||
		!strings.Contains(cdc.Fix(dst.Refused[0].Err), `errors.skip: ["orders-5"]`) {
		t.Errorf("refused %+v", dst.Refused)
	}
}

// What stands in backquotes is taken for a command, and what is too long makes a status that cannot be read.
func TestIDInAFix(t *testing.T) {
	o, table := numbered(t)
	o.Unroutable = cdc.PolicyDeadLetter
	dst, err := route(t, o, batch(table, row{"id": "`cdc-relay x`", "type": "b", "body": "x"}, row{"id": strings.Repeat("5", 300), "type": "b", "body": "x"}))
	if err != nil || len(dst.Refused) != 2 {
		t.Fatalf("%+v, %v", dst.Refused, err)
	}
	if fix := cdc.Fix(dst.Refused[0].Err); !strings.HasSuffix(fix, `errors.skip: ["orders-\x60cdc-relay x\x60"]`) {
		t.Error(fix)
	}
	if fix := cdc.Fix(dst.Refused[1].Err); strings.Contains(fix, "5") || !strings.HasSuffix(fix, "to go past it") {
		t.Error(fix)
	}
}

// Without a value in the column there is no ID.
func TestNoIDBehindText(t *testing.T) {
	o, table := numbered(t)
	for value, says := range map[string]string{"": "column id is empty", "NULL": "column id is NULL", "\xff": "column id is not valid UTF-8"} {
		r := row{"id": value, "type": "a", "body": "x"}
		if value == "NULL" {
			r = r.without("id")
		}
		_, err := route(t, o, batch(table, r))
		stopped(t, err, cdc.ClassRuntime, "malformed", "row 0 of transaction 0/16B3748, committed at ", "is malformed: "+says)
	}
	table.Columns[0].Name = "no"
	_, err := route(t, o, batch(table, row{"no": "1"}))
	stopped(t, err, cdc.ClassConfig, cdc.MissingColumn, "column id of public.outbox is missing. Fix: add it to the table, or name the column that holds the event_id under tables[0].columns")
}

// A structured record has the whole ID, and so has the message of a plain one, whose headers have what they are made of.
func TestFormatsOfIDBehindText(t *testing.T) {
	o, table := numbered(t)
	for _, c := range []struct {
		shape record.Shape
		has   string
	}{
		{record.Shape{Format: record.FormatCloudEventsJSON}, `value "{\"id\":\"orders-7\",`},
		{record.Shape{Format: record.FormatPlain, Headers: []record.Field{{Name: "key", Part: outbox.Part{Template: "orders-${id}"}}}}, `key: "orders-7"`},
		{record.Shape{Format: record.FormatPlain, Headers: named("key=id")}, `key: "7"`},
	} {
		o.Tables[0].Shape = &c.shape
		m := one(t, o, table, row{"id": "7", "type": "a", "body": "x"})
		if got := golden(m); !strings.Contains(got, c.has) || string(m.ID) != "orders-7" {
			t.Errorf("event %s: no %s in\n%s", m.ID, c.has, got)
		}
	}
}
