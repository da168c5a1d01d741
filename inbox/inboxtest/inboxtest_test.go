package inboxtest_test

import (
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/inboxtest"
	"github.com/cdc-relay/cdc-relay/writer"
)

// The record is that of docs/records.md, with every part that an event may have.
func TestMessage(t *testing.T) {
	e := &writer.Event{
		ID: [16]byte{0x39, 2: 1}, AggregateType: "Order", AggregateID: "o-1", Type: "OrderPlaced", Payload: []byte(`{"total": 1999}`),
		OccurredAt: time.Date(2026, 11, 21, 13, 12, 58, 594041999, time.FixedZone("", 7200)), Headers: map[string]string{"traceparent": "00-1", "a": "b"},
	}
	m := inboxtest.Message(e)
	var headers []string
	for _, h := range m.Headers {
		headers = append(headers, h.Key+":"+string(h.Value))
	}
	if want := []string{
		"ce_id:39000100-0000-0000-0000-000000000000", "ce_specversion:1.0", "ce_source:/test/public.outbox", "ce_type:OrderPlaced", "ce_subject:o-1",
		"ce_time:2026-11-21T11:12:58.594041Z", "content-type:application/json", "ce_aggregatetype:Order", "a:b", "traceparent:00-1",
	}; !slices.Equal(headers, want) || string(m.Key) != "o-1" || string(m.Value) != `{"total": 1999}` || m.Type != "OrderPlaced" || m.Invalid != "" {
		t.Errorf("%q\n%+v", headers, m)
	}
	e = &writer.Event{AggregateID: "o-1", PartitionKey: "c-1", Topic: "orders", TenantID: "t", SchemaID: "s", SchemaVersion: 2, ContentType: "text/plain", Tombstone: true}
	m = inboxtest.Message(e)
	version, _ := m.Header("ce_dataschemaversion")
	if other := inboxtest.Message(e); m.ID == other.ID || len(m.ID) != 36 || e.ID != [16]byte{} {
		t.Errorf("IDs %s and %s, the event has %s", m.ID, other.ID, e.ID)
	}
	if string(m.Key) != "c-1" || m.Topic != "orders" || m.Value != nil || m.TenantID != "t" || string(version) != "2" || time.Since(m.Time) > time.Minute {
		t.Errorf("%+v", m)
	}
}

type order struct{ Total int64 }

// A handler is tested with an event, in a transaction that is rolled back.
func Example() {
	test := func(t *testing.T, in *inbox.Inbox[*sql.Tx], handlers *inbox.Registry[*sql.Tx]) {
		t.Helper()
		placed, err := writer.JSON("Order", "o-1", "OrderPlaced", order{Total: 1999})
		if err != nil {
			t.Fatal(err)
		}
		err = inboxtest.Handle(t, in, handlers.Handle, inboxtest.Message(placed), func(tx *sql.Tx) {
			var total int64
			if err := tx.QueryRowContext(t.Context(), "SELECT total FROM revenue").Scan(&total); err != nil || total != 1999 {
				t.Errorf("total %d: %v", total, err)
			}
		})
		if err != nil {
			t.Error(err)
		}
	}
	_ = test
	fmt.Println(inboxtest.Message(&writer.Event{AggregateID: "o-1", Type: "OrderPlaced"}).Source)
	// Output: /test/public.outbox
}
