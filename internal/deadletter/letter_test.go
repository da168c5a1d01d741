package deadletter_test

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
)

// A letter's record is read as it was written, and its row is the row that it was made of, whatever the values hold: NULL, nothing,
// bytes that are no text, and headers with the names of the letter's own.
func TestLetterIsReadAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, payload := drawRow(t)
		form := cdc.FormBytes
		value, ok := b.Value(0, payload)
		if ok && value == nil {
			value = []byte{}
		}
		names := []string{"ce_id", "dead_letter_reason", "dead_letter_row", ""}
		l := &deadletter.Letter{
			Entry: deadletter.Entry{
				Reason: "rejected", Error: rapid.String().Draw(t, "error"), Table: "a.b", Topic: "t", Place: b.Place(0), ID: "1",
				Time: time.Unix(0, rapid.Int64Range(0, 1<<60).Draw(t, "time")).UTC(), Attempts: rapid.IntRange(0, 9).Draw(t, "attempts"),
			},
			RecordKey: rapid.SampledFrom([][]byte{nil, {}, []byte("k"), {0xff, 0}}).Draw(t, "key"), Payload: value,
			Row: deadletter.RowOf(b, 0, payload, form),
		}
		l.Key = cdc.KeyText(l.RecordKey)
		for _, name := range rapid.SliceOfN(rapid.SampledFrom(names), 0, 4).Draw(t, "headers") {
			l.Headers = append(l.Headers, cdc.Header{Key: []byte(name), Value: rapid.SampledFrom([][]byte{nil, {}, []byte("v")}).Draw(t, "header")})
		}
		record, headers := l.EncodeRecord()
		if record == nil {
			t.Fatal("the record is a tombstone")
		}
		got, err := deadletter.Decode(record, headers)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Payload, l.Payload) || (got.Payload == nil) != (l.Payload == nil) || !bytes.Equal(got.RecordKey, l.RecordKey) {
			t.Fatalf("payload %q, key %q, want %q, %q", got.Payload, got.RecordKey, l.Payload, l.RecordKey)
		}
		if !slices.EqualFunc(got.Headers, l.Headers, func(a, b cdc.Header) bool { return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) }) {
			t.Fatalf("headers %q, want %q", got.Headers, l.Headers)
		}
		if got.Entry != l.Entry {
			t.Fatalf("entry %+v, want %+v", got.Entry, l.Entry)
		}
		sameRow(t, got.Batch(map[string]*cdc.Table{}), b, payload)
	})
}

// drawRow returns a batch of one row, and the index of its payload's column.
func drawRow(t *rapid.T) (*cdc.Batch, int) {
	table := &cdc.Table{Schema: "a", Name: "b"}
	b := &cdc.Batch{Seq: 1, Table: table, Txs: []cdc.Tx{{Commit: 7, Time: 8, Ordinal: rapid.Uint32().Draw(t, "ordinal")}}}
	if rapid.Bool().Draw(t, "gtid") {
		b.Txs[0].Commit, b.TxName = 0, func(int) string { return "0-1-7" }
	}
	n := rapid.IntRange(1, 5).Draw(t, "columns")
	for i := range n {
		table.Columns = append(table.Columns, cdc.Column{
			Name: strings.Repeat("c", i+1), Form: rapid.SampledFrom([]cdc.Form{cdc.FormText, cdc.FormInt, cdc.FormHex}).Draw(t, "form"),
			Type: rapid.SampledFrom([]cdc.Type{cdc.TypeOther, cdc.TypeChar, cdc.TypeInteger}).Draw(t, "type"),
		})
		span := cdc.Span{Off: int32(len(b.Arena)), Len: -1}
		if value := rapid.SampledFrom([][]byte{nil, {}, []byte("text"), {0, 0xff}}).Draw(t, "value"); value != nil {
			span.Len = int32(len(value))
			b.Arena = append(b.Arena, value...)
		}
		b.Spans = append(b.Spans, span)
	}
	return b, rapid.IntRange(0, n-1).Draw(t, "payload")
}

func sameRow(t *rapid.T, got, want *cdc.Batch, payload int) {
	if got.Place(0) != want.Place(0) || got.Txs[0] != want.Txs[0] || got.Table.String() != want.Table.String() {
		t.Fatalf("row at %s of %+v, want %s of %+v", got.Place(0), got.Txs, want.Place(0), want.Txs)
	}
	for i := range want.Table.Columns {
		a, isA := got.Value(0, i)
		b, isB := want.Value(0, i)
		form := want.Table.Columns[i].Form
		if i == payload {
			form = cdc.FormBytes
		}
		if isA != isB || !bytes.Equal(a, b) || got.Table.Columns[i].Form != form {
			t.Fatalf("column %d is %q, %v, want %q, %v", i, a, isA, b, isB)
		}
	}
}

// A letter has the text of JSON in a binary form, which earlier releases do not know, unless it cannot be read.
func TestLettersHaveJSONAsText(t *testing.T) {
	damaged := []byte("\x04\x09")
	b := &cdc.Batch{Arena: slices.Concat([]byte("\x04\x01"), damaged), Spans: []cdc.Span{{Off: 0, Len: 2}, {Len: -1}, {Off: 2, Len: 2}}, Txs: []cdc.Tx{{}}, Table: &cdc.Table{
		Columns: []cdc.Column{{Name: "json", Form: cdc.FormMySQLJSON}, {Name: "null", Form: cdc.FormMySQLJSON}, {Name: "damaged", Form: cdc.FormMySQLJSON}},
	}}
	text, raw := "true", string(damaged)
	want := []deadletter.Column{{Name: "json", Text: &text}, {Name: "null"}, {Name: "damaged", Form: cdc.FormMySQLJSON, Text: &raw}}
	if got := deadletter.RowOf(b, 0, -1, cdc.FormBytes).Columns; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A letter whose value is of an unknown kind, such as one that an earlier version wrote without its payload, is never read as one with an
// empty payload, which a retry would publish.
func TestUnknownKindOfValue(t *testing.T) {
	for _, kind := range []string{"stub", "sealed", ""} {
		value, headers := (&deadletter.Letter{}).EncodeRecord()
		i := slices.IndexFunc(headers, func(h cdc.Header) bool { return string(h.Key) == "dead_letter_value" })
		headers[i].Value = []byte(kind)
		if l, err := deadletter.Decode(value, headers); err == nil || l != nil || cdc.Fix(err) == "" {
			t.Errorf("%q: %+v, %v", kind, l, err)
		}
	}
}

// Letters that an earlier version wrote without their payload are reported until they are resolved.
func TestLettersWithoutTheirPayload(t *testing.T) {
	r := deadletter.NewRecords()
	add := func(value string) error {
		t.Helper()
		if err := r.Add("letter/b@1/0", []byte(value)); err != nil {
			t.Fatal(err)
		}
		return r.Whole()
	}
	for value, reported := range map[string]bool{`{"v":1,"stub":true}`: true, `{"v":1,"done":"dropped"}`: false, `{"v":1}`: false} {
		if err := add(value); (cdc.ReasonOf(err) == "dead_letter_without_payload") != reported {
			t.Errorf("%s: %v", value, err)
		}
	}
}

// A record of the index that a newer relay wrote is refused, and says so.
func TestUnknownRecords(t *testing.T) {
	for _, tt := range []struct{ key, value, says string }{
		{"letter/a", `{"v":2}`, "version 2"},
		{"letter/a", `{`, "unexpected end"},
		{"lock/a", `{"v":1}`, `"lock/a" is not known`},
	} {
		err := deadletter.NewRecords().Add(tt.key, []byte(tt.value))
		if err == nil || !strings.Contains(cdc.Explain(err), tt.says) || !strings.Contains(cdc.Explain(err), "newer one") {
			t.Errorf("%s %s: %v", tt.key, tt.value, err)
		}
	}
}
