package router_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/record"
	"github.com/cdc-relay/cdc-relay/internal/router"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// With its memory in the pool and its topics known, a batch costs one allocation, LastEventID, whatever its records are made of.
func TestRouteAllocatesOncePerBatch(t *testing.T) {
	const prefixed = "ID behind a text"
	parts := []record.Field{
		{Name: "id", Part: outbox.Of("event_id")},
		{Name: "n", Part: outbox.Of("schema_version")},
		{Name: "b", Part: outbox.Of("payload")},
		{Name: "t", Part: outbox.Part{JSON: "headers", Path: "$.traceparent"}},
		{Name: "c", Part: outbox.Part{Const: "c"}},
		{Name: "x", Part: outbox.Part{Template: "${tenant_id}/${aggregate_id}"}},
	}
	members := record.Members{Rename: map[string]string{"a": "b"}, Drop: []string{"c"}, Prefixed: true}
	for name, shape := range map[string]*record.Shape{
		"native":     {},
		prefixed:     {},
		"plain":      {Format: record.FormatPlain, Headers: slices.Concat(parts[:2], parts[3:]), Members: members},
		"value":      {Value: parts, Members: members},
		"structured": {Format: record.FormatCloudEventsJSON},
		"confluent":  {Confluent: true},
	} {
		rows := make([]row, 100)
		for i := range rows {
			rows[i] = binaryRow(order().with("schema_id", "7").with("headers", headersOfAllLengths))
			if i%2 == 0 {
				rows[i] = binaryRow(order().with("schema_id", "7").without("topic"))
			}
		}
		o := options()
		o.TopicPrefix, o.Tables[0].Shape = "rehearsal.", shape
		if name == prefixed {
			o.Tables[0].Layout = behindText(t)
		}
		o.Routes[0].Key, o.Routes[0].Partition = &outbox.Part{Template: "${tenant_id}/${aggregate_id}"}, &outbox.Part{JSON: "headers", Path: "$.p"}
		b, r, dst := batch(binaryTable(), rows...), newRouter(t, o), &cdc.Routed{}
		allocs := testing.AllocsPerRun(20, func() {
			dst.Reset(b)
			testenv.Must(t, r.Route(b, dst))
		})
		if allocs > 1 {
			t.Errorf("%s: %v allocations for 100 events", name, allocs)
		}
	}
}

const headersOfAllLengths = `{"p": "12", "traceparent": "t", "Correlation-Id": "1", "correlation-of-more-than-thirty-two-bytes": "2", "a-name-of-more-than-thirty-two-bytes": "3"}`

// Messages stay whole while the slabs behind them grow under later rows, from any size.
func TestSlabsGrowUnderMessages(t *testing.T) {
	for _, layout := range []outbox.Layout{outbox.Native(), behindText(t)} {
		o := options()
		o.Tables[0].Layout = layout
		slabsGrow(t, o)
	}
}

func slabsGrow(t *testing.T, o router.Options) {
	t.Helper()
	rows := make([]row, 50)
	for i := range rows {
		rows[i] = binaryRow(order().without("topic", "partition_key").with("aggregate_id", string(rune('a'+i))))
	}
	b, want := batch(binaryTable(), rows...), []string(nil)
	for i := range rows {
		alone := batch(binaryTable(), rows[i])
		alone.Txs[0].Ordinal = uint32(i)
		dst, err := route(t, o, alone)
		testenv.Must(t, err)
		want = append(want, golden(&dst.Messages[0]))
	}
	r := newRouter(t, o)
	for size := range 40 {
		dst := &cdc.Routed{Headers: make([]cdc.Header, 0, size), Scratch: make([]byte, 0, 3*size), Messages: make([]cdc.Message, 0, size)}
		routeInto(t, r, b, dst)
		for i := range want {
			m := &dst.Messages[i]
			if got := golden(m); got != want[i] || cap(m.Headers) != len(m.Headers) {
				t.Fatalf("size %d, message %d: %s, want %s", size, i, got, want[i])
			}
		}
	}
}

// More topics than most relays have cost an event nothing either, whether rows or routes name them.
func TestManyTopicsAllocateNothing(t *testing.T) {
	for name, of := range map[string]func(topic string) row{
		"column": func(topic string) row { return order().with("topic", topic) },
		"route":  func(topic string) row { return order().without("topic").with("aggregate_type", topic) },
	} {
		rows := make([]row, 6000)
		for i := range rows {
			rows[i] = binaryRow(of(fmt.Sprintf("topic-%d", i)))
		}
		b, r, dst := batch(binaryTable(), rows...), newRouter(t, options()), &cdc.Routed{}
		if allocs := testing.AllocsPerRun(1, func() {
			dst.Reset(b)
			testenv.Must(t, r.Route(b, dst))
		}); allocs > 1 {
			t.Errorf("%s: %v allocations for %d events", name, allocs, len(rows))
		}
	}
}

// Rows go where they belong also once there were more topics than are kept.
func TestMoreTopicsThanAreKept(t *testing.T) {
	r, dst := newRouter(t, options()), &cdc.Routed{}
	for i := range 20 {
		rows := make([]row, 1000)
		for j := range rows {
			rows[j] = order().with("topic", fmt.Sprintf("%d-%d-%s", i, j, strings.Repeat("x", 230)))
		}
		b := batch(native(), rows...)
		routeInto(t, r, b, dst)
		if last := dst.Messages[999]; last.Topic != rows[999]["topic"] {
			t.Fatalf("topic %s, want %s", last.Topic, rows[999]["topic"])
		}
	}
}
