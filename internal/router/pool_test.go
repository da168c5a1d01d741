package router_test

import (
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// With its memory in the pool and its topics known, a batch costs one allocation: LastEventID.
func TestRouteAllocatesOncePerBatch(t *testing.T) {
	rows := make([]row, 100)
	for i := range rows {
		rows[i] = binaryRow(order().without("topic"))
	}
	b, r, dst := batch(binaryTable(), rows...), newRouter(t, options()), &cdc.Routed{}
	allocs := testing.AllocsPerRun(20, func() {
		dst.Reset(b)
		if err := r.Route(b, dst); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 1 {
		t.Errorf("%v allocations for 100 events", allocs)
	}
}

// Messages stay whole while the slabs behind them grow under later rows, from any size.
func TestSlabsGrowUnderMessages(t *testing.T) {
	rows := make([]row, 50)
	for i := range rows {
		rows[i] = binaryRow(order().without("topic", "partition_key").with("aggregate_id", string(rune('a'+i))))
	}
	b, want := batch(binaryTable(), rows...), []string(nil)
	for i := range rows {
		alone := batch(binaryTable(), rows[i])
		alone.Txs[0].Ordinal = uint32(i)
		dst, err := route(t, options(), alone)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, golden(&dst.Messages[0]))
	}
	r := newRouter(t, options())
	for size := range 40 {
		dst := &cdc.Routed{Headers: make([]cdc.Header, 0, size), Scratch: make([]byte, 0, 3*size), Messages: make([]cdc.Message, 0, size)}
		dst.Reset(b)
		if err := r.Route(b, dst); err != nil {
			t.Fatal(err)
		}
		for i := range want {
			m := &dst.Messages[i]
			if got := golden(m); got != want[i] || cap(m.Headers) != len(m.Headers) {
				t.Fatalf("size %d, message %d: %s, want %s", size, i, got, want[i])
			}
		}
	}
}
