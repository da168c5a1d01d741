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

// onlyOptions are of a native table of which only rows that match all the expressions are published: "column=expression ...".
func onlyOptions(expressions string) router.Options {
	o := options()
	o.Tables[0].Only = map[string]string{}
	for field := range strings.FieldsSeq(expressions) {
		column, expression, _ := strings.Cut(field, "=")
		o.Tables[0].Only[column] = expression
	}
	return o
}

// withStatus is the native table with a column of a poller.
func withStatus() *cdc.Table {
	t := native()
	t.Columns = append(t.Columns, cdc.Column{Name: "status"})
	return t
}

func TestOnly(t *testing.T) {
	status := func(values ...string) (rows []row) {
		for _, value := range values {
			if value == "NULL" {
				rows = append(rows, order())
				continue
			}
			rows = append(rows, order().with("status", value))
		}
		return rows
	}
	for _, tt := range []struct {
		only string
		rows []row
		want []int32 // the rows that are published
	}{
		{"", status("NEW", "SENT", "NULL"), []int32{0, 1, 2}},
		{"status=NEW|CREATED", status("NEW", "SENT", "CREATED", "NULL", "", "RENEW", "NEWER", "NEW", "new"), []int32{0, 2, 7}},
		{"status=.*", status("NEW", "NULL", ""), []int32{0, 2}},
		{"status=(?i)new aggregate_type=Order", append(status("new", "SENT"), order().with("status", "NEW").with("aggregate_type", "User")), []int32{0}},
		{"schema_version=[3-9]", []row{order(), order().with("schema_version", "2"), order().without("schema_version")}, []int32{0}},
		{"tenant_id=x+", []row{order().with("tenant_id", strings.Repeat("x", 4000)), order().with("tenant_id", strings.Repeat("x", 4000)+"y")}, []int32{0}},
	} {
		dst, err := route(t, onlyOptions(tt.only), batch(withStatus(), tt.rows...))
		testenv.Must(t, err)
		var got []int32
		for _, m := range dst.Messages {
			got = append(got, m.Row)
		}
		if !slices.Equal(got, tt.want) || dst.LeftOut != len(tt.rows)-len(tt.want) || len(dst.Drops)+len(dst.Refused) > 0 {
			t.Errorf("only %s: rows %v of %d, %d left out, drops %v", tt.only, got, len(tt.rows), dst.LeftOut, dst.Drops)
		}
	}
}

// A part of the event is meant where there is one, and the column of that name otherwise, as in routes.
func TestOnlyReadsParts(t *testing.T) {
	o := options()
	o.Tables = []router.Table{{
		Name: outbox.Name{Schema: "public", Table: "outbox"}, Source: "/shop", Layout: mapped(t, map[string]string{"event_id": "event_id", "event_type": "schema_id", "payload": "payload", "topic": "topic"}),
		Only: map[string]string{"event_type": "urn:.*", "tenant_id": "acme"},
	}}
	dst, err := route(t, o, batch(native(), order(), order().with("schema_id", "order"), order().with("tenant_id", "b")))
	if err != nil || len(dst.Messages) != 1 || dst.LeftOut != 2 {
		t.Errorf("%d messages, %d left out, %v", len(dst.Messages), dst.LeftOut, err)
	}
	r := newRouter(t, o)
	for column, want := range map[string]bool{"tenant_id": true, "schema_id": true, "event_type": false, "aggregate_id": false} {
		if got := r.Needs("public.outbox", column); got != want {
			t.Errorf("needs %s: %v", column, got)
		}
	}
}

// A row that is left out is neither malformed nor skipped; one whose condition cannot be read is malformed.
func TestOnlyComesFirst(t *testing.T) {
	o := onlyOptions("status=NEW")
	o.Skip = []string{eventID}
	bad := row{"status": "SENT"}
	dst, err := route(t, o, batch(withStatus(), bad, order().with("status", "SENT"), order().with("status", "NEW")))
	if err != nil || dst.LeftOut != 2 || len(dst.Drops) != 1 || dst.Drops[0].Row != 2 {
		t.Errorf("%d left out, drops %v, %v", dst.LeftOut, dst.Drops, err)
	}
	unreadable := order().with("status", "\xff")
	dst, err = route(t, o, batch(withStatus(), unreadable))
	if err != nil || len(dst.Drops) != 1 || dst.LeftOut > 0 {
		t.Errorf("skipped: %d left out, drops %v, %v", dst.LeftOut, dst.Drops, err)
	}
	o.Skip = nil
	_, err = route(t, o, batch(withStatus(), unreadable))
	stopped(t, err, cdc.ClassRuntime, "malformed", "event "+eventID, "is malformed: column status is not valid UTF-8")
	o.Malformed = cdc.PolicyDeadLetter
	if dst, err = route(t, o, batch(withStatus(), unreadable)); err != nil || len(dst.Refused) != 1 || string(dst.Refused[0].EventID) != eventID {
		t.Errorf("refused %v, %v", dst.Refused, err)
	}
	o.EveryRow = true
	if dst, err = route(t, o, batch(withStatus(), order().with("status", "SENT"))); err != nil || len(dst.Messages) != 1 {
		t.Errorf("every row: %d messages, %v", len(dst.Messages), err)
	}
}

// A column that is missing stops the relay, with several tables too. Rows of before it was added are malformed, and none is left out.
func TestOnlyOnAColumnThatIsNotThere(t *testing.T) {
	o := onlyOptions("status=NEW")
	o.Tables = append(o.Tables, router.Table{Name: outbox.Name{Schema: "public", Table: "other"}, Source: "/other"})
	const says = "tables[0].only.status: public.outbox has no column status. Fix: add it to the table, or change tables[0].only"
	_, err := route(t, o, batch(native(), order()))
	stopped(t, err, cdc.ClassConfig, "missing_column", says)
	stopped(t, newRouter(t, o).Check(native()), cdc.ClassConfig, "missing_column", says)
	before := native()
	before.Now = withStatus()
	_, err = route(t, o, batch(before, order()))
	stopped(t, err, cdc.ClassRuntime, "malformed", "it was logged without column status, which the table has now")
	o.Malformed = cdc.PolicyDeadLetter
	if dst, err := route(t, o, batch(before, order())); err != nil || len(dst.Refused) != 1 || dst.LeftOut > 0 {
		t.Errorf("refused %v, %d left out, %v", dst.Refused, dst.LeftOut, err)
	}
	opaque := withStatus()
	setForm(opaque, "status", cdc.FormOpaque)
	_, err = route(t, o, batch(opaque, order()))
	stopped(t, err, cdc.ClassConfig, "column_type", "column status of public.outbox is in a binary form that the relay does not know")
}

// A condition allocates nothing for a row with the same value as the one before, whether that is left out or not. (A regular expression
// allocates nothing either, but with the race detector on.)
func TestOnlyAllocatesNothing(t *testing.T) {
	for status, most := range map[string]float64{"NEW": 1, "SENT": 0} { // LastEventID
		b := batch(withStatus(), slices.Repeat([]row{order().with("status", status)}, 100)...)
		r, dst := newRouter(t, onlyOptions("status=NEW|CREATED tenant_id=acme")), &cdc.Routed{}
		run := func() {
			dst.Reset(b)
			testenv.Must(t, r.Route(b, dst))
		}
		if n := testing.AllocsPerRun(20, run); n > most {
			t.Errorf("status %s: %v allocations for %d rows", status, n, b.Rows())
		}
	}
}
