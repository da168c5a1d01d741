package binlog

import (
	"log/slog"
	"strings"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// discard is a queue that takes everything.
type discard struct{}

func (discard) Offer(b *cdc.Batch) bool {
	b.Release()
	return true
}

func (discard) Space() <-chan struct{} { return nil }

// sample is a table with the values of a row.
type sample struct {
	name   string
	fields []field
	values []string
}

func (s *sample) add(f field, values ...string) {
	names := strings.Fields(f.name)
	for i, name := range names {
		f.name = name
		s.fields, s.values = append(s.fields, f), append(s.values, values[min(i, len(values)-1)])
	}
}

// samples are the outbox table that setup makes, one of other software, without and with the columns of its poller's state, and one with
// rarer types.
func samples() (list []sample) {
	text := func(names string) field {
		return field{name: names, tp: gomysql.MYSQL_TYPE_VARCHAR, meta: "\xfc\x03", charset: mysql.CharsetUTF8}
	}
	blob := field{name: "payload", tp: gomysql.MYSQL_TYPE_BLOB, meta: "\x04", charset: mysql.CharsetBinary}
	times := func(names string) field { return field{name: names, tp: gomysql.MYSQL_TYPE_DATETIME2, meta: "\x06"} }
	const at, some = "\x99\xb9\x04\x30\xc5\x00\x00\x01", "\x13\x00some text 123456789"
	payload := counted(4, strings.Repeat(`{"order": 4711}`, 20))

	native := sample{name: "native"}
	native.add(field{name: "event_id", tp: gomysql.MYSQL_TYPE_VARCHAR, meta: "\x10\x00", charset: mysql.CharsetBinary}, "\x100123456789abcdef")
	native.add(text("aggregate_type aggregate_id event_type"), some)
	native.add(text("tenant_id topic partition_key content_type schema_id"), "NULL", "NULL", "NULL", some, "NULL")
	native.add(field{name: "schema_version", tp: gomysql.MYSQL_TYPE_LONG}, "NULL")
	native.add(field{name: "headers", tp: gomysql.MYSQL_TYPE_BLOB, meta: "\x04", charset: mysql.CharsetUTF8}, "NULL")
	native.add(blob, payload)
	native.add(times("occurred_at created_at"), at)
	list = append(list, native)

	// {"z": [1, {"y": "2"}], "removed": {"x": [1, 2, 3]}, "replaced": "a longer text"}
	const document = "\x00\x03\x00h\x00\x19\x00\x01\x00\x1a\x00\x07\x00!\x00\x08\x00\x02)\x00\x00A\x00\x0cZ\x00zremovedreplaced\x02\x00\x18\x00\x05\x01\x00\x00\x0a\x00\x01\x00\x0e\x00\x0b\x00\x01\x00\x0c\x0c\x00y\x012\x01\x00\x19\x00\x0b\x00\x01\x00\x02\x0c\x00x\x03\x00\x0d\x00\x05\x01\x00\x05\x02\x00\x05\x03\x00\x0da longer text"
	json := sample{name: "json"}
	json.add(field{name: "id", tp: gomysql.MYSQL_TYPE_LONGLONG}, "12345678")
	json.add(text("event_id tenant_id event_type aggregate_type aggregate_id"), some)
	json.add(field{name: "payload headers", tp: gomysql.MYSQL_TYPE_JSON, meta: "\x04"}, counted(4, document))
	json.add(times("created_at"), at)
	list = append(list, json)

	json.name = "json_and_state"
	json.add(field{name: "status", tp: gomysql.MYSQL_TYPE_TINY}, "\x00")
	json.add(field{name: "attempts", tp: gomysql.MYSQL_TYPE_LONG}, "\x00\x00\x00\x00")
	json.add(times("available_at done_at locked_at"), at, "NULL")
	json.add(text("last_error locked_by"), "NULL")
	list = append(list, json)

	other := sample{name: "rarer_types"}
	other.add(field{name: "id", tp: gomysql.MYSQL_TYPE_LONGLONG}, "12345678")
	other.add(text("aggregate_id event_type"), some)
	other.add(blob, payload)
	other.add(field{name: "status", tp: gomysql.MYSQL_TYPE_STRING, meta: "\xf7\x01", charset: mysql.CharsetUTF8, names: []string{"NEW", "SENT"}}, "\x01")
	other.add(field{name: "amount", tp: gomysql.MYSQL_TYPE_NEWDECIMAL, meta: "\x0a\x02"}, "\x80\x00\x04\xd2\x38")
	other.add(field{name: "day", tp: gomysql.MYSQL_TYPE_DATE}, "\x22\xd4\x0f")
	other.add(field{name: "flags", tp: gomysql.MYSQL_TYPE_STRING, meta: "\xf8\x01", charset: mysql.CharsetLatin1, names: []string{"a", "b"}}, "\x03")
	other.add(field{name: "bits", tp: gomysql.MYSQL_TYPE_BIT, meta: "\x01\x01"}, "\x01\x01")
	other.add(field{name: "ratio", tp: gomysql.MYSQL_TYPE_FLOAT, meta: "\x04"}, "\x00\x00\xc0\x3f")
	other.add(field{name: "took", tp: gomysql.MYSQL_TYPE_TIME2, meta: "\x03"}, "\x80\x30\xc5\x04\xd2")
	other.add(times("created_at"), at)
	return append(list, other)
}

// events are a table map and rows.
func (s *sample) events(rows int) (event, event) {
	return tableMap(s.fields), rowsOf(len(s.fields), strings.Repeat(image(s.values), rows))
}

const sampleRows = 100

// transactions returns what takes one transaction of sampleRows rows after the other.
func (s *sample) transactions(tb testing.TB) func() {
	tb.Helper()
	src := New(Options{Options: mysql.Options{Tables: []string{"d.outbox"}}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	ss := sessionAt(tb, src, discard{})
	ss.charsets = collations()
	table, rows := s.events(sampleRows)
	n := uint64(1)
	return func() {
		n++
		ss.tx = transaction{open: true, begun: true, id: mysql.GTID{Server: 1, Number: n}}
		for _, e := range []event{table, rows, xidEvent()} {
			testenv.Must(tb, ss.take(tb.Context(), e))
		}
		src.Confirm(src.handed.Load())
	}
}

// A row of whatever types is decoded without an allocation; a transaction has a few.
func TestRowsAreDecodedWithoutAllocation(t *testing.T) {
	for _, s := range samples() {
		if n := testing.AllocsPerRun(100, s.transactions(t)); n > sampleRows/5 {
			t.Errorf("%s: %.0f allocations for %d rows", s.name, n, sampleRows)
		}
	}
}
