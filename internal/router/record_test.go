package router_test

import (
	"reflect"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

const goldenFull = `topic orders
key "k1"
value "{\"total\": 1}"
ce_id: "0198c0de-0000-7000-8000-00000000002a"
ce_specversion: "1.0"
ce_source: "/shop/outbox"
ce_type: "order.placed"
ce_subject: "42"
ce_time: "2026-01-02T03:04:05.6Z"
content-type: "application/json"
ce_aggregatetype: "Order"
ce_tenant: "acme"
ce_dataschema: "urn:order"
ce_dataschemaversion: "3"
ce_sequence: "00000000016b3748-00000000"
ce_committime: "2026-01-02T03:04:06.5Z"
traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
`

func TestGoldenRecord(t *testing.T) {
	if got := golden(one(t, options(), native(), order())); got != goldenFull {
		t.Errorf("got\n%swant\n%s", got, goldenFull)
	}
}

const goldenLeast = `topic outbox.event.Order
key "42"
value null
ce_id: "0198c0de-0000-7000-8000-00000000002a"
ce_specversion: "1.0"
ce_source: "/shop/outbox"
ce_type: "order.placed"
ce_subject: "42"
ce_time: "2026-01-02T03:04:05.6Z"
ce_aggregatetype: "Order"
ce_sequence: "00000000016b3748-00000000"
ce_committime: "2026-01-02T03:04:06.5Z"
`

// A row with NULL wherever it may stand: headers are left out, the key falls back, the value is null.
func TestGoldenRecordOfNulls(t *testing.T) {
	r := order().without("tenant_id", "topic", "partition_key", "content_type", "schema_id",
		"schema_version", "headers", "payload", "created_at")
	if got := golden(one(t, options(), native(), r)); got != goldenLeast {
		t.Errorf("got\n%swant\n%s", got, goldenLeast)
	}
}

// Each message has its event's ID, by which dead letters are identified, whatever headers it has.
func TestMessageHasTheID(t *testing.T) {
	o := options()
	o.Headers = []cdc.Header{{Key: []byte("added"), Value: []byte("x")}}
	full := order().with("headers", `{"a":"b"}`)
	dst, err := route(t, o, batch(native(), full.with("event_id", "1"), full.without("headers", "tenant_id").with("event_id", "2")))
	if err != nil || len(dst.Messages) != 2 {
		t.Fatalf("%+v, %v", dst.Messages, err)
	}
	for i, want := range []string{"1", "2"} {
		m := &dst.Messages[i]
		if got, _ := header(m, "ce_id"); got != want || string(m.ID) != want || m.EventID() != want {
			t.Errorf("message %d: ce_id %s, ID %s, want %s", i, got, m.ID, want)
		}
	}
}

// What a dead letter says of its event is read from the row, whatever is the matter with the rest of it.
func TestDescribe(t *testing.T) {
	o := options()
	o.Malformed = cdc.PolicyDeadLetter
	b := batch(native(), order(), order().with("tenant_id", "\xff").with("headers", "x").without("aggregate_type"))
	dst, err := route(t, o, b)
	if err != nil || len(dst.Refused) != 1 {
		t.Fatalf("%+v, %v", dst, err)
	}
	for row, want := range []cdc.Described{
		{Type: []byte("order.placed"), AggregateType: []byte("Order"), Tenant: []byte("acme")}, {Type: []byte("order.placed")},
	} {
		if got := dst.Describer.Describe(b, row); !reflect.DeepEqual(got, want) {
			t.Errorf("row %d: %q, want %q", row, got, want)
		}
	}
}
