package router_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/record"
	"github.com/cdc-relay/cdc-relay/internal/router"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// placed is the table of placements: the native one with a number, and a payload that is a column of JSON.
func placed() *cdc.Table {
	t := native()
	t.Columns = append(t.Columns, cdc.Column{Name: "shard", Form: cdc.FormText})
	t.Columns[t.Index("payload")].Type = cdc.TypeJSON
	return t
}

func column(name string) *outbox.Part { return &outbox.Part{Column: name} }

func TestKeyOfRoute(t *testing.T) {
	routed := order().without("topic").with("payload", `{"id": 7, "name": "a\"b", "o": {"a": 1}, "none": null}`)
	member := func(path string) *outbox.Part { return &outbox.Part{JSON: "payload", Path: path} }
	for _, tt := range []struct {
		name string
		row  row
		key  *outbox.Part
		want string // the key, or what the error says
	}{
		{"the table's", routed, nil, `"k1"`},
		{"a column", routed, column("tenant_id"), `"acme"`},
		{"a number in a document", routed, member("$.id"), `"7"`},
		{"a text in a document", routed, member("$.name"), `"a\"b"`},
		{"a template", routed, &outbox.Part{Template: "${tenant_id}/${aggregate_id}"}, `"acme/42"`},
		{"NULL is no key", routed.without("tenant_id"), column("tenant_id"), "null"},
		{"empty is no key", routed.with("tenant_id", ""), column("tenant_id"), "null"},
		{"null in a document", routed, member("$.none"), "null"},
		{"NULL in a template", routed.without("tenant_id"), &outbox.Part{Template: "${tenant_id}/${aggregate_id}"}, "null"},
		{"the topic column has no route", order(), column("tenant_id"), `"k1"`},
		{"a column of JSON that is a text", routed.with("payload", `"x"`), column("payload"), `"x"`},
		{"an object", routed, member("$.o"), "is malformed: routes[0].key ($.o of column payload) is an object or an array, and a key is a text or a number. Fix: correct what writes it"},
		{"a column of JSON that is an object", routed, column("payload"), "is malformed: routes[0].key (column payload) is an object"},
		{"no JSON", routed.with("payload", "{"), member("$.o"), "is malformed: routes[0].key ($.o of column payload) cannot be read: it is not JSON"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := options()
			o.Routes = []router.Route{{Topic: "t", Key: tt.key}}
			dst, err := route(t, o, batch(placed(), tt.row, tt.row))
			if strings.Contains(tt.want, " ") {
				stopped(t, err, cdc.ClassRuntime, "malformed", tt.want, eventID)
				return
			}
			if err != nil || quoted(dst.Messages[0].Key) != tt.want || quoted(dst.Messages[1].Key) != tt.want || dst.Messages[0].Partition != 0 {
				t.Errorf("got %+v, %v; want the key %s", dst.Messages, err, tt.want)
			}
		})
	}
}

// Debezium writes an empty key as an empty text, so that plain records do; elsewhere it is no key.
func TestEmptyKey(t *testing.T) {
	for _, tt := range []struct {
		name         string
		row          row
		key          *outbox.Part
		plain, other string
	}{
		{"the aggregate's", order().without("topic", "partition_key").with("aggregate_id", ""), nil, `""`, "null"},
		{"no key", order().without("topic", "partition_key", "aggregate_id"), nil, "null", "null"},
		{"another key", order().without("topic").with("partition_key", ""), nil, `"42"`, `"42"`},
		{"the route's", order().without("topic").with("tenant_id", ""), column("tenant_id"), `""`, "null"},
		{"no key of the route", order().without("topic", "tenant_id"), column("tenant_id"), "null", "null"},
	} {
		for format, want := range map[record.Format]string{record.FormatPlain: tt.plain, record.FormatCloudEvents: tt.other, record.FormatCloudEventsJSON: tt.other} {
			o := options()
			o.Tables[0].Shape, o.Tables[0].Layout = &record.Shape{Format: format}, mapped(t, map[string]string{
				"event_id": "event_id", "event_type": "event_type", "partition_key": "partition_key", "aggregate_id": "aggregate_id", "payload": "payload",
			})
			o.Routes = []router.Route{{Topic: "t", Key: tt.key}}
			if m := one(t, o, native(), tt.row); quoted(m.Key) != want {
				t.Errorf("%s, %s: key %s, want %s", tt.name, format, quoted(m.Key), want)
			}
		}
	}
}

func TestPartitionOfRoute(t *testing.T) {
	malformed := "is malformed: routes[0].partition (column shard) is not the number of a partition (0, 1, 2 and so on). Fix: correct what writes it"
	for text, want := range map[string]string{
		"0": "1", "7": "8", "007": "8", "2147483646": "2147483647", "": "0", "NULL": "0",
		"2147483647": malformed, "-1": malformed, "+1": malformed, "1.0": malformed, "1 2": malformed, "0x1": malformed, "1_0": malformed, "one": malformed,
		strings.Repeat("9", 100): malformed,
	} {
		o, r := options(), order().without("topic").with("shard", text)
		if text == "NULL" {
			r = r.without("shard")
		}
		o.Routes = []router.Route{{Topic: "t", Partition: column("shard")}}
		dst, err := route(t, o, batch(placed(), r))
		switch {
		case want == malformed:
			stopped(t, err, cdc.ClassRuntime, "malformed", malformed, eventID)
		case err != nil || fmt.Sprint(dst.Messages[0].Partition) != want || string(dst.Messages[0].Key) != "k1":
			t.Errorf("%q: got %+v, %v; want %s", text, dst.Messages, err, want)
		}
	}
	o := options()
	o.Routes = []router.Route{
		{Match: map[string]string{"tenant_id": "a"}, Topic: "a", Partition: &outbox.Part{Const: "3"}},
		{Topic: "b", Key: column("event_type")},
	}
	routed := order().without("topic")
	dst, err := route(t, o, batch(placed(), routed.with("tenant_id", "a"), routed, routed.with("tenant_id", "a"), order()))
	testenv.Must(t, err)
	for i, want := range []string{`a 4 "k1"`, `b 0 "order.placed"`, `a 4 "k1"`, `orders 0 "k1"`} {
		m := &dst.Messages[i]
		if got := fmt.Sprintf("%s %d %q", m.Topic, m.Partition, m.Key); got != want {
			t.Errorf("row %d: %s, want %s", i, got, want)
		}
	}
}

// A row that is refused or dropped has the key of its route, as far as it has one: what comes after it in that key is held behind it.
func TestRefusedRowHasKeyOfRoute(t *testing.T) {
	routed := order().without("topic")
	for _, tt := range []struct {
		name string
		row  row
		want string
	}{
		{"malformed", routed.without("event_type"), `"acme"`},
		{"a bad partition", routed.with("shard", "x"), `"acme"`},
		{"a topic that cannot be made", routed.with("schema_id", "no topic"), `"acme"`},
		{"NULL in the topic", routed.without("schema_id"), `"acme"`},
		{"no ID", routed.without("event_id"), `"acme"`},
		{"no route", routed.with("aggregate_type", "Other"), `"k1"`},
		{"a bad topic column", order().with("topic", "no topic"), `"k1"`},
	} {
		for _, policy := range []cdc.Policy{cdc.PolicyDeadLetter, cdc.PolicyDrop} {
			o := options()
			o.Unroutable, o.Malformed = policy, policy
			o.Routes = []router.Route{{Match: map[string]string{"aggregate_type": "Order"}, Topic: "${schema_id}", Key: column("tenant_id"), Partition: column("shard")}}
			dst, err := route(t, o, batch(placed(), tt.row))
			if err != nil || len(dst.Refused)+len(dst.Drops) != 1 {
				t.Fatalf("%s: refused %v, dropped %v, %v", tt.name, dst.Refused, dst.Drops, err)
			}
			key := func() []byte {
				if policy == cdc.PolicyDrop {
					return dst.Drops[0].Key
				}
				return dst.Refused[0].Key
			}()
			if quoted(key) != tt.want {
				t.Errorf("%s: key %q, want %s", tt.name, key, tt.want)
			}
		}
	}
}

// A column that a route's key needs must be in each table whose rows may take the route.
func TestColumnOfPlacementMissing(t *testing.T) {
	other := native()
	other.Name = "other"
	both := []router.Table{{Name: outbox.Name{Schema: "public", Table: "outbox"}, Source: "/s"}, {Name: outbox.Name{Schema: "public", Table: "other"}, Source: "/s"}}
	before := native()
	before.Now = placed()
	for _, tt := range []struct {
		name   string
		tables []router.Table
		table  *cdc.Table
		route  router.Route
		want   string // "" for no error
	}{
		{"there", both[:1], placed(), router.Route{Key: column("shard")}, ""},
		{"not there", both[:1], native(), router.Route{Key: column("shrad")}, "routes[0].key: public.outbox has no column shrad. Fix: name one that it has (event_id, aggregate_type, "},
		{"in a template", both[:1], native(), router.Route{Key: &outbox.Part{Template: "${tenant_id}${shard}"}}, "routes[0].key: public.outbox has no column shard"},
		{"of a document", both[:1], native(), router.Route{Partition: &outbox.Part{JSON: "shard"}}, "routes[0].partition: public.outbox has no column shard"},
		{"in one of two", both, other, router.Route{Key: column("shard")}, "occurred_at, created_at), or keep the table away from the route with table in its match"},
		{"of another table", both, other, router.Route{Match: map[string]string{"table": "outbox"}, Key: column("shard")}, ""},
		{"of a table that the route reads more of", both, other, router.Route{Match: map[string]string{"region": ".*"}, Key: column("shard")}, ""},
		{"before it was added", both[:1], before, router.Route{Key: column("shard")}, ""},
	} {
		tt.route.Topic = "t"
		err := newRouter(t, router.Options{Tables: tt.tables, Routes: []router.Route{tt.route}}).Check(tt.table)
		switch {
		case tt.want != "":
			stopped(t, err, cdc.ClassConfig, cdc.MissingColumn, tt.want)
		case err != nil:
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// The relay asks for the columns of keys and partitions.
func TestPlacementReadsColumns(t *testing.T) {
	o := options()
	o.Routes[0].Key, o.Routes[0].Partition = &outbox.Part{Template: "${tenant_id}-${customer}"}, &outbox.Part{JSON: "payload", Path: "$.p"}
	r := newRouter(t, o)
	for name, want := range map[string]bool{"customer": true, "payload": true, "p": false} {
		if got := r.Needs("public.outbox", name); got != want {
			t.Errorf("%s is needed: %v", name, got)
		}
	}
}
