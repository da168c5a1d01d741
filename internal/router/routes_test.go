package router_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/router"
)

func TestTopic(t *testing.T) {
	match := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	routed := order().without("topic")
	tests := []struct {
		name   string
		row    row
		routes []router.Route
		want   string // the topic, or what the error says
	}{
		{"topic column first", order(), []router.Route{{Topic: "x"}}, "orders"},
		{"topic column without routes", order(), nil, "orders"},
		{"empty topic column", order().with("topic", ""), []router.Route{{Topic: "x"}}, "x"},
		{"first that matches", routed, []router.Route{
			{Match: match("aggregate_type", "Customer"), Topic: "a"},
			{Match: match("aggregate_type", "Ord.*"), Topic: "b"},
			{Match: match("aggregate_type", ".*"), Topic: "c"},
		}, "b"},
		{"the whole value", routed, []router.Route{{Match: match("aggregate_type", "Ord"), Topic: "a"}, {Topic: "b"}}, "b"},
		{"alternatives as a whole", routed, []router.Route{{Match: match("aggregate_type", "Or|der"), Topic: "a"}, {Topic: "b"}}, "b"},
		{"the longer alternative", routed, []router.Route{{Match: match("aggregate_type", "Or|Order"), Topic: "a"}}, "a"},
		{"case is kept", routed, []router.Route{{Match: match("aggregate_type", "order"), Topic: "a"}, {Topic: "b"}}, "b"},
		{"case on request", routed, []router.Route{{Match: match("aggregate_type", "(?i)order"), Topic: "a"}}, "a"},
		{"an end is the end", routed.with("aggregate_type", "Order\n"), []router.Route{{Match: match("aggregate_type", "Order$"), Topic: "a"}, {Topic: "b"}}, "b"},
		{"all must match", routed, []router.Route{
			{Match: match("aggregate_type", "Order", "tenant_id", "b"), Topic: "a"},
			{Match: match("aggregate_type", "Order", "tenant_id", "acme"), Topic: "b"},
		}, "b"},
		{"NULL matches nothing", routed.without("tenant_id"), []router.Route{{Match: match("tenant_id", ".*"), Topic: "a"}, {Topic: "b"}}, "b"},
		{"empty matches .*", routed.with("tenant_id", ""), []router.Route{{Match: match("tenant_id", ".*"), Topic: "a"}}, "a"},
		{"a column without a role", routed.with("region", "eu"), []router.Route{{Match: match("region", "eu"), Topic: "r.${region}"}}, "r.eu"},
		{"the table", routed, []router.Route{{Match: match("table", "orders_.*"), Topic: "a"}, {Match: match("table", "outbox"), Topic: "of.${table}"}}, "of.outbox"},
		{"of another table, what is no text", routed.with("region", "\xff"), []router.Route{{Match: match("table", "o", "region", ".*"), Topic: "${region}"}, {Match: match("table", "outbox"), Topic: "b"}}, "b"},
		{"a header", routed, []router.Route{{Match: match("headers.traceparent", ".*-00"), Topic: "a"}, {Match: match("headers.traceparent", "00-.*"), Topic: "b"}}, "b"},
		{"a header with any name", routed.with("headers", `{"a\"b<.": 7}`), []router.Route{{Match: match("headers.a\"b<.", "7"), Topic: "v${headers.a\"b<.}"}}, "v7"},
		{"a header that is not there", routed.without("headers"), []router.Route{{Match: match("headers.x", ".*"), Topic: "a"}, {Topic: "b"}}, "b"},
		{"what Kafka refuses", routed.with("tenant_id", "a b/ä.:9"), []router.Route{{Topic: "t.${tenant_id}", Sanitize: true}}, "t.a_b___._9"},
		{"a number", routed, []router.Route{{Match: match("schema_version", "[0-9]+"), Topic: "v${schema_version}"}}, "v3"},
		{"a time", routed, []router.Route{{Match: match("occurred_at", `(?<year>\d+)-.*`), Topic: "y${year}"}}, "y2026"},
		{"several in a template", routed, []router.Route{{Topic: "${tenant_id}.${aggregate_type}-${tenant_id}"}}, "acme.Order-acme"},
		{"a group", routed, []router.Route{{Match: match("event_type", `(?<domain>\w+)\.(?P<what>\w+)`), Topic: "${what}.${domain}"}}, "placed.order"},
		{"a group before a column", routed, []router.Route{{Match: match("aggregate_type", `(?<tenant_id>Or).*`), Topic: "${tenant_id}"}}, "Or"},
		{"only letters that topics take", routed.with("tenant_id", "a_B-9.x"), []router.Route{{Topic: "${tenant_id}"}}, "a_B-9.x"},

		{"the relay's own topic", order().with("topic", "own"), nil, "has a bad topic: column topic holds a topic of the relay's own. Fix: correct what writes it, or take topic out of columns"},
		{"the relay's own topic by a route", routed.with("tenant_id", "own"), []router.Route{{Topic: "${tenant_id}"}}, "has a bad topic: the template of routes[0] makes a topic of the relay's own. Fix: change the route"},
		{"no routes", routed, nil, "has no topic: no route matches it and it names none. Fix: add a route"},
		{"no match", routed, []router.Route{{Match: match("aggregate_type", "x"), Topic: "a"}}, "has no topic: no route matches"},
		{"NULL in a template", routed.without("tenant_id"), []router.Route{{Topic: "a"}, {Topic: "b"}}, "a"},
		{
			"NULL in the template", routed.without("tenant_id"),
			[]router.Route{{Topic: "a.${tenant_id}"}, {Topic: "b"}},
			"the topic of routes[0] takes ${tenant_id}, which is NULL or empty. Fix: add tenant_id: \".+\" to the match of that route",
		},
		{"empty in the template", routed.with("tenant_id", ""), []router.Route{{Topic: "a.${tenant_id}"}}, "${tenant_id}, which is NULL or empty"},
		{
			"an empty group", routed,
			[]router.Route{{Match: match("aggregate_type", "Order(?<rest>.*)"), Topic: "a${rest}"}},
			"${rest}, which is NULL or empty",
		},
		{
			"a bad name from a template", routed.with("tenant_id", "a b"),
			[]router.Route{{Topic: "${tenant_id}"}},
			"has a bad topic name: the template of routes[0] makes one that Kafka does not take",
		},
		{"a bad name from the column", order().with("topic", "a/b"), nil, "has a bad topic name: column topic holds one that Kafka does not take"},
		{"a dot", order().with("topic", "."), nil, "has a bad topic name"},
		{"two dots", order().with("topic", ".."), nil, "has a bad topic name"},
		{"three dots", order().with("topic", "..."), nil, "..."},
		{"249 characters", order().with("topic", strings.Repeat("a", 249)), nil, strings.Repeat("a", 249)},
		{"250 characters", order().with("topic", strings.Repeat("a", 250)), nil, "has a bad topic name"},
		{"a long template", routed.with("tenant_id", strings.Repeat("a", 249)), []router.Route{{Topic: "a${tenant_id}"}}, "has a bad topic name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, table := options(), native()
			table.Columns = append(table.Columns, cdc.Column{Name: "region"})
			o.Routes, o.Reserved = tt.routes, []string{"own"}
			// Twice: what is remembered must not differ from what was worked out.
			dst, err := route(t, o, batch(table, tt.row, tt.row))
			if strings.Contains(tt.want, " ") {
				stopped(t, err, cdc.ClassRuntime, "unroutable", tt.want, eventID, "public.outbox", "aggregate Order 42")
				return
			}
			if err != nil || dst.Messages[0].Topic != tt.want || dst.Messages[1].Topic != tt.want {
				t.Errorf("got %+v, %v; want %s", dst.Messages, err, tt.want)
			}
		})
	}
}

// The prefix is part of the topic, also where its length and the relay's own topics are looked at. A topic without a prefix may be
// the relay's own.
func TestTopicPrefix(t *testing.T) {
	routed := order().without("topic")
	for _, tt := range []struct {
		row  row
		want string // the topic, or what the error says
	}{
		{order(), "try.orders"},
		{routed, "try.of.acme"},
		{order().with("topic", "own"), "try.own"},
		{order().with("topic", ".."), "try..."},
		{order().with("topic", "mine"), "has a bad topic: topic_prefix with what column topic holds is a topic of the relay's own"},
		{order().with("topic", strings.Repeat("x", 245)), "try." + strings.Repeat("x", 245)},
		{order().with("topic", strings.Repeat("x", 246)), "has a bad topic name: topic_prefix with what column topic holds is one that Kafka does not take (1 to 249 "},
		{routed.with("tenant_id", strings.Repeat("x", 243)), "topic_prefix with what the template of routes[0] makes is one that Kafka does not take (1 to 249 "},
	} {
		o := options()
		o.TopicPrefix, o.Routes, o.Reserved = "try.", []router.Route{{Topic: "of.${tenant_id}"}}, []string{"own", "try.mine"}
		dst, err := route(t, o, batch(native(), tt.row, tt.row))
		if strings.Contains(tt.want, " ") {
			stopped(t, err, cdc.ClassRuntime, "unroutable", tt.want)
			continue
		}
		if err != nil || dst.Messages[0].Topic != tt.want || dst.Messages[1].Topic != tt.want {
			t.Errorf("got %+v, %v; want %s", dst.Messages, err, tt.want)
		}
	}
}

// More different values than the caches hold, long ones, and NULL beside empty: each gets its own topic.
func TestRouteCache(t *testing.T) {
	o := options()
	o.Routes = []router.Route{
		{Match: map[string]string{"tenant_id": "", "schema_id": "x*"}, Topic: "empty.${partition_key}"},
		{Match: map[string]string{"schema_id": "x*"}, Topic: "null.${partition_key}"},
	}
	r, table := newRouter(t, o), native()
	for round := range 2 {
		for i := range 5000 {
			like := order().with("partition_key", fmt.Sprint(i)).with("schema_id", strings.Repeat("x", i%700))
			b := batch(table, like.without("topic", "tenant_id"), like.without("topic").with("tenant_id", ""), like.with("topic", fmt.Sprint("t", i)))
			dst := &cdc.Routed{}
			routeInto(t, r, b, dst)
			for row, want := range []string{"null.%d", "empty.%d", "t%d"} {
				if got := dst.Messages[row].Topic; got != fmt.Sprintf(want, i) {
					t.Fatalf("round %d, %d: %s", round, i, got)
				}
			}
		}
	}
}
