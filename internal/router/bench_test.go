package router_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/record"
	"github.com/cdc-relay/cdc-relay/internal/router"
)

// rowsPerBatch is about what a source cuts off while draining.
const rowsPerBatch = 1000

// BenchmarkRoute measures an event of the native table, as a source hands it on under load: ten rows in a
// transaction, eight aggregates' types, payloads of 200 bytes. The time is for one event.
func BenchmarkRoute(b *testing.B) {
	routed := options()
	routed.Routes = []router.Route{
		{Match: map[string]string{"aggregate_type": "Order"}, Topic: "orders.${tenant_id}"},
		{Match: map[string]string{"aggregate_type": ".*"}, Topic: "outbox.event.${aggregate_type}"},
	}
	full := order().with("payload", strings.Repeat("x", 200))
	least := full.without("tenant_id", "topic", "partition_key", "schema_id", "schema_version", "headers")
	b.Run("binary", func(b *testing.B) { benchRoute(b, options(), binaryTable(), binaryRow(full.without("topic"))) })
	b.Run("text", func(b *testing.B) { benchRoute(b, options(), native(), full.without("topic")) })
	b.Run("topic_column", func(b *testing.B) { benchRoute(b, options(), binaryTable(), binaryRow(full)) })
	b.Run("two_routes", func(b *testing.B) { benchRoute(b, routed, binaryTable(), binaryRow(full.without("topic"))) })
	prefixed := options()
	prefixed.Tables[0].Layout = behindText(b)
	b.Run("id_prefix", func(b *testing.B) { benchRoute(b, prefixed, binaryTable(), binaryRow(full.without("topic"))) })
	placed := options()
	placed.Routes[0].Key, placed.Routes[0].Partition = &outbox.Part{Template: "${tenant_id}/${aggregate_id}"}, &outbox.Part{Column: "schema_version"}
	b.Run("key_and_partition", func(b *testing.B) { benchRoute(b, placed, binaryTable(), binaryRow(full.without("topic"))) })
	only := options()
	only.Tables[0].Only = map[string]string{"tenant_id": "acme|globex"}
	b.Run("only", func(b *testing.B) { benchRoute(b, only, binaryTable(), binaryRow(full.without("topic"))) })
	b.Run("few_columns", func(b *testing.B) { benchRoute(b, options(), binaryTable(), binaryRow(least)) })
	for name, shape := range map[string]*record.Shape{
		"plain": {Format: record.FormatPlain}, "structured": {Format: record.FormatCloudEventsJSON},
		"value": {Value: []record.Field{{Name: "id", Part: outbox.Of("event_id")}, {Name: "at", Part: outbox.Of("occurred_at")}, {Name: "key", Part: outbox.Of("aggregate_id")}}},
	} {
		o := options()
		o.Tables[0].Shape = shape
		b.Run(name, func(b *testing.B) {
			benchRoute(b, o, binaryTable(), binaryRow(full.with("content_type", "text/plain").without("topic")))
		})
	}
	b.Run("bytea_as_hex", func(b *testing.B) {
		table := native()
		setForm(table, "payload", cdc.FormHex)
		benchRoute(b, options(), table, full.with("payload", `\x`+strings.Repeat("78", 200)))
	})
}

func benchRoute(b *testing.B, o router.Options, table *cdc.Table, like row) {
	b.Helper()
	rows := make([]row, rowsPerBatch)
	for i := range rows {
		rows[i] = like.with("aggregate_type", fmt.Sprintf("Order%d", i%8)).with("aggregate_id", fmt.Sprint(i))
	}
	in := batch(table, rows...)
	in.Txs = nil
	for i := range rowsPerBatch / 10 {
		in.Txs = append(in.Txs, cdc.Tx{Commit: uint64(commitLSN + 100*i), Time: int64(commitAt + 1000*i), Row: 10 * i})
	}
	r, dst := newRouter(b, o), &cdc.Routed{}
	b.ReportAllocs()
	b.ResetTimer()
	before := userTime(b)
	for n := 0; n < b.N; n += rowsPerBatch {
		dst.Reset(in)
		if err := r.Route(in, dst); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(userTime(b)-before)/float64(b.N), "cpu-ns/op") // steadier than the clock on a busy machine
	if len(dst.Messages) != rowsPerBatch {
		b.Fatalf("%d messages", len(dst.Messages))
	}
}

// userTime is the processor time that this process has used outside of the kernel.
func userTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano())
}

// binaryTable is the native table as a source that reads binary describes it.
func binaryTable() *cdc.Table {
	t := native()
	setForm(t, "event_id", cdc.FormUUID)
	setForm(t, "schema_version", cdc.FormInt)
	setForm(t, "headers", cdc.FormJSONB)
	setForm(t, "payload", cdc.FormBytes)
	setForm(t, "occurred_at", cdc.FormMicros2000)
	setForm(t, "created_at", cdc.FormMicros2000)
	return t
}

// binaryRow is an order's row as binaryTable holds it.
func binaryRow(r row) row {
	id := "\x01\x98\xc0\xde\x00\x00\x70\x00\x80\x00\x00\x00\x00\x00\x00\x2a"
	at := string(binary.BigEndian.AppendUint64(nil, 1767323045600000-946684800000000))
	b := r.with("event_id", id).with("occurred_at", at).with("created_at", at)
	if _, ok := r["headers"]; ok {
		b["headers"] = "\x01" + r["headers"]
	}
	if _, ok := r["schema_version"]; ok {
		b["schema_version"] = "\x00\x00\x00\x03"
	}
	return b
}
