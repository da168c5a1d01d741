package outbox_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

func TestRequiredColumns(t *testing.T) {
	mapped, err := outbox.Mapped(map[string]outbox.Part{
		"event_id": outbox.Of("id"), "event_type": outbox.Of("kind"), "payload": outbox.Of("body"), "tenant_id": outbox.Of("tenant"),
	})
	testenv.Must(t, err)
	if mapped.Column(outbox.Payload) != "body" || mapped.Column(outbox.Topic) != "" {
		t.Errorf("payload in %q, topic in %q", mapped.Column(outbox.Payload), mapped.Column(outbox.Topic))
	}
	tests := []struct {
		name            string
		layout          outbox.Layout
		must, notNull   string
		nullIsTombstone bool
	}{
		{
			"native", outbox.Native(),
			"event_id aggregate_type aggregate_id event_type topic partition_key payload occurred_at",
			"event_id aggregate_type aggregate_id event_type occurred_at", true,
		},
		{"mapped", mapped, "event_id event_type tenant_id payload", "event_id event_type payload", false},
	}
	for _, tt := range tests {
		if got := roles(tt.layout.MustExist); got != tt.must {
			t.Errorf("%s must have %s, want %s", tt.name, got, tt.must)
		}
		if got := roles(tt.layout.NotNull); got != tt.notNull {
			t.Errorf("%s is not null in %s, want %s", tt.name, got, tt.notNull)
		}
		if (tt.layout.Null() == outbox.NullTombstone) != tt.nullIsTombstone {
			t.Errorf("%s: NULL is %s", tt.name, tt.layout.Null())
		}
	}
}

// An event's ID is a column, or one behind a text.
func TestID(t *testing.T) {
	for part, want := range map[outbox.Part][2]string{
		outbox.Of("id"):              {"", "id"},
		{Template: "orders-${no}"}:   {"orders-", "no"},
		{Template: "orders-$ {${a}"}: {"orders-$ {", "a"},
	} {
		l, err := outbox.Mapped(map[string]outbox.Part{"event_id": part, "tenant_id": {Template: "x${id}"}})
		testenv.Must(t, err)
		if got := [2]string{l.IDPrefix(), l.Column(outbox.EventID)}; got != want || l.Column(outbox.TenantID) != "" || !slices.Contains(l.Columns(), want[1]) {
			t.Errorf("%s: %q, tenant in %q", part.String(), got, l.Column(outbox.TenantID))
		}
	}
}

func roles(is func(outbox.Role) bool) string {
	var names []string
	for role := range outbox.Roles {
		if is(role) {
			names = append(names, role.String())
		}
	}
	return strings.Join(names, " ")
}

func TestMappedErrors(t *testing.T) {
	type part = outbox.Part
	for _, tt := range []struct {
		role string
		part part
		says string
	}{
		{"id", outbox.Of("id"), "id: not a part of an event"},
		{"event_id", part{}, "event_id: missing"},
		{"topic", part{Encoding: "hex"}, "topic: names nothing"},
		{"topic", part{Column: "a", Const: "b"}, "topic: has more than one of column, const, template and json"},
		{"event_id", part{Const: "1"}, "event_id: is not a column"},
		{"event_id", part{JSON: "a", Path: "$.b"}, "event_id: is not a column, nor a text with one column after it"},
		{"event_id", part{Template: "a"}, "event_id: is not a column, nor"},
		{"event_id", part{Template: "${a}"}, "event_id: is not a column, nor"},
		{"event_id", part{Template: "a-${b}-c"}, "event_id: is not a column, nor"},
		{"event_id", part{Template: "${a}b${c}"}, "event_id: is not a column, nor"},
		{"event_id", part{Template: "a-${b"}, `event_id: has the template "a-${b"`},
		{"event_id", part{Template: "a-${b}"}, ""},
		{"created_at", part{Template: "${a}"}, "created_at: is not a column"},
		{"headers", part{JSON: "a", Path: "$.b"}, "headers: is not a column"},
		{"partition_key", part{Const: "x"}, "partition_key: is the same for all events"},
		{"topic", part{Column: "a", Encoding: "hex"}, "topic: has an encoding"},
		{"payload", part{Const: "a", Encoding: "hex"}, "payload: has an encoding"},
		{"topic", part{Column: "a", Path: "$.a"}, "topic: has a path without json"},
		{"topic", part{Template: "a${b"}, `topic: has the template "a${b", in which a ${ has no name or no closing }`},
		{"topic", part{JSON: "a"}, ""},
		{"topic", part{JSON: "a", Path: "$"}, ""},
		{"topic", part{JSON: "a", Path: "a.b"}, `topic: has the path "a.b"`},
		{"topic", part{JSON: "a", Path: "$.a..b"}, `topic: has the path "$.a..b", which cannot be read from "`},
		{"topic", part{JSON: "a", Path: "$.a[-1]"}, `topic: has the path "$.a[-1]", which cannot be read from "[-1]" on`},
		{"topic", part{JSON: "a", Path: `$["a]`}, "topic: has the path"},
		{"topic", part{JSON: "a", Path: "$[1"}, "topic: has the path"},
		{"topic", part{JSON: "a", Path: "$.a*"}, ""},
	} {
		parts := map[string]part{"event_id": outbox.Of("id"), "event_type": outbox.Of("type"), "payload": outbox.Of("data")}
		if parts[tt.role] = tt.part; tt.part == (part{}) {
			delete(parts, tt.role)
		}
		if _, err := outbox.Mapped(parts); (err == nil) != (tt.says == "") || err != nil && !strings.HasPrefix(err.Error(), tt.says) {
			t.Errorf("%s %+v: %v, want %q", tt.role, tt.part, err, tt.says)
		}
	}
	if l, err := outbox.Mapped(nil); err != nil || l != outbox.Native() {
		t.Errorf("an empty map is not the native layout: %v", err)
	}
}

func TestReservedHeader(t *testing.T) {
	for name, want := range map[string]bool{
		"ce_id": true, "CE_x": true, "ce_": true, "Content-Type": true, "content-type": true,
		"": false, "ce": false, "traceparent": false, "content_type": false, "xce_id": false,
	} {
		if got := outbox.ReservedHeader(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

func TestParseName(t *testing.T) {
	tests := []struct {
		in, want, says string
	}{
		{in: "public.outbox", want: "public|outbox"},
		{in: "outbox", want: "public|outbox"},
		{in: "App.OutBox", want: "App|OutBox"},
		{in: "Ände rung.`x`", want: "Ände rung|`x`"},
		{in: "", says: "empty part"},
		{in: "a.", says: "empty part"},
		{in: ".a", says: "empty part"},
		{in: "a.b.c", says: "more than two parts"},
		{in: `"order"`, says: "has quotes"},
		{in: strings.Repeat("x", 64), says: "more than 63 bytes"},
		{in: "a\x00", says: "zero byte"},
	}
	for _, tt := range tests {
		n, err := outbox.ParseName(tt.in)
		switch {
		case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("%q: %v, want %q", tt.in, err, tt.says)
		case tt.says == "" && (err != nil || n.Schema+"|"+n.Table != tt.want):
			t.Errorf("%q: %+v, %v", tt.in, n, err)
		}
	}
}
