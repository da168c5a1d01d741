package outbox_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// rowsOf returns a batch of text columns, of which each row has the values in turn; "NULL" is NULL.
func rowsOf(columns string, rows ...[]string) *cdc.Batch {
	b := &cdc.Batch{Table: &cdc.Table{Schema: "public", Name: "outbox"}, Txs: []cdc.Tx{{}}}
	for name := range strings.FieldsSeq(columns) {
		b.Table.Columns = append(b.Table.Columns, cdc.Column{Name: name})
	}
	for _, row := range rows {
		for _, value := range row {
			if value == "NULL" {
				b.Spans = append(b.Spans, cdc.Span{Len: -1})
				continue
			}
			b.Spans = append(b.Spans, cdc.Span{Off: int32(len(b.Arena)), Len: int32(len(value))})
			b.Arena = append(b.Arena, value...)
		}
	}
	return b
}

// planOf returns the plan for a table whose parts are these and the columns id, type and data.
func planOf(tb testing.TB, table *cdc.Table, parts map[string]outbox.Part) *outbox.Plan {
	tb.Helper()
	for role, column := range map[string]string{"event_id": "id", "event_type": "type", "payload": "data"} {
		if _, ok := parts[role]; !ok {
			parts[role] = outbox.Of(column)
		}
	}
	layout, err := outbox.Mapped(parts)
	testenv.Must(tb, err)
	p, err := layout.Plan(table, "tables[0]")
	testenv.Must(tb, err)
	return p
}

// shown is a value, or why there is none.
func shown(value []byte, f *outbox.Fault) string {
	switch {
	case f != nil:
		return "bad: " + f.Cause
	case value == nil:
		return "NULL"
	default:
		return string(value)
	}
}

// Each kind of part, of the rows of one batch in turn.
func TestParts(t *testing.T) {
	type part = outbox.Part
	b := rowsOf("id type data doc",
		[]string{"7", "a", "aGk=", `{"a": {"b": [1, {"c": "x\u00e9\"y"}]}, "t": true, "n": null, "o": {"k": [1, 2]}, "": "empty", "big": 12345678901234567890123, "s": "plain"}`},
		[]string{"8", "NULL", "?", `[0]`},
		[]string{"9", "b", "", "NULL"},
		[]string{"10", "b", "", `{"a": `},
		[]string{"11", "b", "", `{"a": 1} 2`},
		[]string{"12", "\xff", "", `{"s": 1, "a": {"b": [0, {"c": 2}]}, "a": {"b": 3}, "s": "last"}`},
	)
	for _, tt := range []struct {
		role  outbox.Role
		part  part
		wants []string // of the rows
	}{
		{outbox.Topic, part{Const: "t"}, []string{"t", "t", "t", "t"}},
		{outbox.Topic, part{Template: "x.${type}-${id}${id}"}, []string{"x.a-77", "NULL", "x.b-99", "x.b-1010", "x.b-1111", "bad: is malformed: column type is not valid UTF-8"}},
		{outbox.Payload, part{Column: "data", Encoding: "base64"}, []string{"hi", "bad: is malformed: column data cannot be read: it is not base64", ""}},
		{outbox.Payload, part{Column: "id", Encoding: "hex"}, []string{"bad: is malformed: column id cannot be read: it is not hex", "bad: is malformed: column id cannot be read: it is not hex", "bad: is malformed: column id cannot be read: it is not hex", "\x10"}},
		{outbox.Topic, part{JSON: "doc", Path: "$.a.b[1].c"}, []string{`xé"y`, "NULL", "NULL", "bad: is malformed: $.a.b[1].c of column doc cannot be read: it is not JSON", "bad: is malformed: $.a.b[1].c of column doc cannot be read: it is not JSON", "NULL"}},
		{outbox.Topic, part{JSON: "doc", Path: "$.a.b"}, []string{`[1, {"c": "x\u00e9\"y"}]`, "NULL"}},
		{outbox.Payload, part{JSON: "doc", Path: "$.a"}, []string{`{"b": [1, {"c": "x\u00e9\"y"}]}`, "NULL", "NULL", "bad: is malformed: $.a of column doc cannot be read: it is not JSON"}},
		{outbox.PartitionKey, part{JSON: "doc", Path: "$.a"}, []string{"bad: is malformed: $.a of column doc is an object or an array, and a key is a text or a number", "NULL", "NULL"}},
		{outbox.AggregateID, part{JSON: "doc", Path: "$.a.b"}, []string{"bad: is malformed: $.a.b of column doc is an object or an array, and a key is a text or a number", "NULL"}},
		{outbox.AggregateID, part{JSON: "doc", Path: "$.big"}, []string{"12345678901234567890123", "NULL"}},
		{outbox.Topic, part{JSON: "doc", Path: `$["t"]`}, []string{"true"}},
		{outbox.Topic, part{JSON: "doc", Path: "$.n"}, []string{"NULL"}},
		{outbox.Topic, part{JSON: "doc", Path: `$[""]`}, []string{"empty"}},
		{outbox.Topic, part{JSON: "doc", Path: "$.big"}, []string{"12345678901234567890123"}},
		{outbox.Topic, part{JSON: "doc", Path: "$[0]"}, []string{"NULL", "0"}},
		{outbox.Topic, part{JSON: "doc", Path: "$.s"}, []string{"plain", "NULL", "NULL", "bad: is malformed: $.s of column doc cannot be read: it is not JSON", "bad: is malformed: $.s of column doc cannot be read: it is not JSON", "last"}},
	} {
		p := planOf(t, b.Table, map[string]part{tt.role.String(): tt.part, "tenant_id": {JSON: "doc", Path: "$.o.k"}, "schema_id": {JSON: "doc", Path: "$.o"}})
		var r outbox.Row
		r.Start(p, b, nil)
		for i, want := range tt.wants {
			r.Move(i)
			read := r.Text
			if tt.role == outbox.Payload {
				read = r.Bytes
			}
			if got := shown(read(&p.Parts[tt.role])); got != want {
				t.Errorf("row %d, %s: %q, want %q", i, tt.part.String(), got, want)
			}
			if i > 0 {
				continue
			}
			if whole, of := shown(r.Text(&p.Parts[outbox.SchemaID])), shown(r.Text(&p.Parts[outbox.TenantID])); whole != `{"k": [1, 2]}` || of != "[1, 2]" {
				t.Errorf("a value and one in it: %q, %q", whole, of)
			}
		}
	}
}

// PostgreSQL's char(n) is padded with spaces, which are no part of the value.
func TestPadding(t *testing.T) {
	b := rowsOf("id type data", []string{"1  ", "a ", " x "}, []string{"  ", "", "NULL"})
	for i := range b.Table.Columns {
		b.Table.Columns[i].Type = cdc.TypeChar
	}
	p := planOf(t, b.Table, map[string]outbox.Part{"topic": outbox.Of("data"), "tenant_id": {Template: "${id}-${type}"}})
	var r outbox.Row
	r.Start(p, b, nil)
	for i, want := range []string{"1|a| x|1-a", "||NULL|-"} {
		r.Move(i)
		var got []string
		for _, role := range []outbox.Role{outbox.EventID, outbox.EventType, outbox.Topic, outbox.TenantID} {
			got = append(got, shown(r.Text(&p.Parts[role])))
		}
		if strings.Join(got, "|") != want {
			t.Errorf("row %d: %q, want %s", i, got, want)
		}
	}
}

// A row of a mapped table costs no allocation once the memory is there, whatever its parts are.
func TestPartsAllocateNothing(t *testing.T) {
	doc := `{"a": {"b": "x\ty"}, "c": 1}`
	b := rowsOf("id type data doc", []string{"1", "a", "aGk=", doc}, []string{"2", "b", "aGk=", doc})
	p := planOf(t, b.Table, map[string]outbox.Part{
		"topic": {Template: "t.${type}"}, "tenant_id": {JSON: "doc", Path: "$.a.b"},
		"schema_version": {JSON: "doc", Path: "$.c"}, "content_type": {Const: "x"}, "payload": {Column: "data", Encoding: "base64"},
	})
	var r outbox.Row
	scratch := make([]byte, 0, 1<<10)
	if allocs := testing.AllocsPerRun(100, func() {
		r.Start(p, b, scratch)
		for at := range 2 {
			r.Move(at)
			for role := range outbox.Roles {
				if _, f := r.Bytes(&p.Parts[role]); f != nil {
					t.Fatal(f.Cause)
				}
			}
		}
	}); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// A time without a zone is of the layout's, in every part that reads the column; a time with one, and text, stay what they are.
func TestPartsInZone(t *testing.T) {
	b := rowsOf("id type data local moment text", []string{"1", "a", "x", "2026-07-01 12:00:00.5", "2026-07-01 12:00:00", "2026-07-01 12:00:00"},
		[]string{"2", "a", "x", "0000-00-00 00:00:00", "NULL", ""}, []string{"3", "a", "x", "NULL", "NULL", ""}, []string{"4", "a", "x", "infinity", "NULL", ""},
		[]string{"5", "a", "x", "2026-02-30 12:00:00", "NULL", ""})
	for i, typ := range map[int]cdc.Type{3: cdc.TypeLocalTime, 4: cdc.TypeTime} {
		b.Table.Columns[i].Form, b.Table.Columns[i].Type = cdc.FormTimestampText, typ
	}
	zone, err := cdc.LoadZone("Europe/Berlin")
	testenv.Must(t, err)
	layout, err := outbox.Mapped(map[string]outbox.Part{
		"event_id": outbox.Of("id"), "event_type": {Template: "at ${local}"}, "payload": outbox.Of("local"), "occurred_at": outbox.Of("local"),
		"created_at": outbox.Of("moment"), "topic": outbox.Of("text"),
	})
	testenv.Must(t, err)
	layout.Zone = zone
	p, err := layout.Plan(b.Table, "tables[0]")
	testenv.Must(t, err)
	if at := p.Parts[outbox.Payload].Index(); at != -1 {
		t.Errorf("column %d is the payload as it is, and a dead letter would have its time without the zone", at)
	}
	var r outbox.Row
	r.Start(p, b, nil)
	for at, want := range []string{"2026-07-01T10:00:00.5Z", "0000-00-00T00:00:00Z", "NULL", "infinity", "2026-02-30T12:00:00Z"} {
		r.Move(at)
		for _, role := range []outbox.Role{outbox.OccurredAt, outbox.Payload} {
			if got := shown(r.Bytes(&p.Parts[role])); got != want {
				t.Errorf("row %d: %s is %s, want %s", at, role, got, want)
			}
		}
		if got := shown(r.Text(&p.Parts[outbox.EventType])); got != "at "+want && want != "NULL" {
			t.Errorf("row %d: %s", at, got)
		}
	}
	r.Start(p, b, nil)
	r.Move(0)
	if at, text := shown(r.Text(&p.Parts[outbox.CreatedAt])), shown(r.Text(&p.Parts[outbox.Topic])); at != "2026-07-01T12:00:00Z" || text != "2026-07-01 12:00:00" {
		t.Error(at, text)
	}
	scratch := make([]byte, 0, 1<<10)
	if allocs := testing.AllocsPerRun(100, func() {
		r.Start(p, b, scratch)
		r.Move(0)
		if _, f := r.Text(&p.Parts[outbox.OccurredAt]); f != nil {
			t.Fatal(f.Cause)
		}
	}); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// FuzzDocument holds a path into any document to what encoding/json says of it.
func FuzzDocument(f *testing.F) {
	for _, doc := range []string{`{"a": {"b": [1, "x"]}}`, `{"a": {"b": [1, null]}, "a": {"b": [2, 3]}}`, `{"a": [1]}`, `[]`, `"a"`, `{"a": {"b": [0, {"z": "\ud83d\ude00"}]}}`, `{"a"`, "", "\xff", `{"a":{"b":[0,"\ud800"]}}`, `1 2`} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		if string(doc) == "NULL" {
			return
		}
		b := rowsOf("id type data doc", []string{"1", "a", "", string(doc)})
		before := bytes.Clone(b.Arena)
		p := planOf(t, b.Table, map[string]outbox.Part{"topic": {JSON: "doc", Path: "$.a.b[1]"}})
		var r outbox.Row
		r.Start(p, b, nil)
		r.Move(0)
		got, fault := r.Text(&p.Parts[outbox.Topic])
		if !bytes.Equal(before, b.Arena) {
			t.Fatalf("%q: the arena was written to", doc)
		}
		if !json.Valid(doc) {
			if fault == nil {
				t.Fatalf("%q is not JSON: %q", doc, got)
			}
			return
		}
		if fault != nil && !utf8.Valid(doc) { // which encoding/json replaces
			return
		}
		if want := lookedUp(t, doc); fmt.Sprintf("%q %t", got, got == nil) != fmt.Sprintf("%q %t", want, want == nil) {
			t.Fatalf("%q: %q, want %q", doc, got, want)
		}
	})
}

// lookedUp is $.a.b[1] of a document by encoding/json.
func lookedUp(t *testing.T, doc []byte) []byte {
	t.Helper()
	var in struct{ A struct{ B []json.RawMessage } }
	member := func(doc []byte, name string) []byte {
		var object map[string]json.RawMessage
		if json.Unmarshal(doc, &object) != nil {
			return nil
		}
		return object[name]
	}
	if json.Unmarshal(member(member(doc, "a"), "b"), &in.A.B) != nil || len(in.A.B) < 2 || string(in.A.B[1]) == "null" {
		return nil
	}
	value := in.A.B[1]
	if value[0] != '"' {
		return value
	}
	var text string
	testenv.Must(t, json.Unmarshal(value, &text))
	return append([]byte{}, text...)
}

// One huge value does not stay in memory, and the draft of others is used again.
func TestDraftIsKeptUnlessHuge(t *testing.T) {
	b := rowsOf("id type data", []string{"1", "a", "x"})
	layout, err := outbox.Mapped(map[string]outbox.Part{"event_id": outbox.Of("id"), "event_type": outbox.Of("type"), "payload": outbox.Of("data")})
	testenv.Must(t, err)
	p, err := layout.Plan(b.Table, "tables[0]")
	testenv.Must(t, err)
	for size, kept := range map[int]bool{1000: true, 2 << 20: false} {
		r := outbox.Row{Draft: make([]byte, size)}
		if r.Start(p, b, nil); cap(r.Draft) > 0 != kept {
			t.Errorf("of %d bytes %d are kept", size, cap(r.Draft))
		}
	}
}
