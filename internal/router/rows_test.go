package router_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Each malformed row stops the relay with a sentence that names table, event, column and fix and holds
// neither payload nor header values; with drop it is left out for the same reason, and its neighbours go.
//
//covers:all 27 messages both
func TestMalformedRows(t *testing.T) {
	tests := []struct {
		name string
		row  row
		form map[string]cdc.Form
		says string
	}{
		{name: "aggregate_type NULL", row: order().without("aggregate_type"), says: "column aggregate_type is NULL"},
		{name: "aggregate_id NULL", row: order().without("aggregate_id"), says: "column aggregate_id is NULL"},
		{name: "event_type NULL", row: order().without("event_type"), says: "column event_type is NULL"},
		{name: "event_type empty", row: order().with("event_type", ""), says: "column event_type is empty"},
		{name: "occurred_at NULL", row: order().without("occurred_at"), says: "column occurred_at is NULL"},
		{name: "occurred_at zero", row: order().with("occurred_at", "0000-00-00 00:00:00"), says: "column occurred_at is not a time of the years 0 to 9999"},
		{name: "occurred_at without a month", row: order().with("occurred_at", "2026-00-15 00:00:00"), says: "column occurred_at is not a time of the years 0 to 9999"},
		{name: "occurred_at no day", row: order().with("occurred_at", "2026-02-29 00:00:00"), says: "column occurred_at is not a time of the years 0 to 9999"},
		{name: "occurred_at infinite", row: order().with("occurred_at", "infinity"), says: "column occurred_at is not a time of the years 0 to 9999"},
		{name: "occurred_at BC", row: order().with("occurred_at", "0044-03-15 12:00:00+00 BC"), says: "column occurred_at is not a time"},
		{name: "occurred_at late", row: order().with("occurred_at", "12026-01-02 03:04:05+00"), says: "column occurred_at is not a time"},
		{
			name: "occurred_at infinite in binary", row: order().with("occurred_at", "\x80\x00\x00\x00\x00\x00\x00\x00"),
			form: map[string]cdc.Form{"occurred_at": cdc.FormMicros2000}, says: "column occurred_at is not a time",
		},
		{
			name: "occurred_at cut", row: order().with("occurred_at", "1234"),
			form: map[string]cdc.Form{"occurred_at": cdc.FormMicros2000}, says: "column occurred_at cannot be read: timestamp of 4 bytes",
		},
		{
			name: "occurred_at free text", row: order().with("occurred_at", "2026-01-02T03:04:05 or so"),
			form: map[string]cdc.Form{"occurred_at": cdc.FormText}, says: "column occurred_at is not a time",
		},
		{name: "partition_key not UTF-8", row: order().with("partition_key", "a\xff"), says: "column partition_key is not valid UTF-8"},
		{name: "topic not UTF-8", row: order().with("topic", "\xff"), says: "column topic is not valid UTF-8"},
		{name: "tenant not UTF-8", row: order().with("tenant_id", "\xc3("), says: "column tenant_id is not valid UTF-8"},
		{name: "headers not UTF-8", row: order().with("headers", "{\"a\": \"\xff\"}"), says: "column headers is not valid UTF-8 JSON"},
		{name: "headers not JSON", row: order().with("headers", `{"a": secret}`), says: "column headers is not a JSON object"},
		{name: "headers cut", row: order().with("headers", `{"a": "secret"`), says: "column headers is not a JSON object"},
		{name: "headers an array", row: order().with("headers", `["secret"]`), says: "column headers is not a JSON object"},
		{name: "headers empty", row: order().with("headers", ""), says: "column headers is not a JSON object"},
		{
			name: "headers of another jsonb", row: order().with("headers", "\x02{}"),
			form: map[string]cdc.Form{"headers": cdc.FormJSONB}, says: "column headers is not valid UTF-8 JSON",
		},
		{name: "reserved header", row: order().with("headers", `{"a": "b", "Ce_Id": "secret"}`), says: `column headers sets the header "Ce_Id", which is the relay's own`},
		{name: "reserved content-type", row: order().with("headers", `{"Content-Type": "secret"}`), says: `sets the header "Content-Type"`},
		{name: "header without a name", row: order().with("headers", `{"": "secret"}`), says: `has a member whose name is empty`},
		{name: "reserved, escaped", row: order().with("headers", `{"\u0063e_x": "secret"}`), says: `sets the header "ce_x"`},
		{
			name: "headers of damaged MySQL JSON", row: order().with("headers", "\x00\x01\x00secret"),
			form: map[string]cdc.Form{"headers": cdc.FormMySQLJSON}, says: "column headers is not valid UTF-8 JSON",
		},
		{
			name: "payload of damaged MySQL JSON", row: order().with("payload", "\x00\x01\x00secret"),
			form: map[string]cdc.Form{"payload": cdc.FormMySQLJSON}, says: "column payload cannot be read: ",
		},
		{
			name: "payload not hex", row: order().with("payload", "secret"),
			form: map[string]cdc.Form{"payload": cdc.FormHex}, says: `column payload cannot be read: bytea that does not start with \x`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table := native()
			for column, form := range tt.form {
				setForm(table, column, form)
			}
			_, err := route(t, options(), batch(table, tt.row))
			text := stopped(t, err, cdc.ClassRuntime, "malformed", tt.says, "event "+eventID+" of public.outbox",
				`errors.skip: ["`+eventID+`"]`, "errors.malformed: dead_letter", "correct what writes it, and go past it with ")
			if strings.Contains(text, "secret") || strings.Contains(text, "\n") {
				t.Errorf("it tells: %s", text)
			}
			o := options()
			o.Malformed = cdc.PolicyDrop
			good := neighbour(tt.form)
			dst, err := route(t, o, batch(table, good, tt.row, good))
			if err != nil || len(dst.Messages) != 2 || dst.Messages[1].Row != 2 || golden(&dst.Messages[0])[:20] != golden(&dst.Messages[1])[:20] {
				t.Fatalf("neighbours: %+v, %v", dst.Messages, err)
			}
			if d := dst.Drops; len(d) != 1 || d[0].Row != 1 || d[0].EventID != eventID || d[0].Reason != "malformed" || cdc.Explain(d[0].Err) != text {
				t.Errorf("dropped: %+v", d)
			}
		})
	}
}

// neighbour is a good row for a table with these forms.
func neighbour(forms map[string]cdc.Form) row {
	good := order()
	for column, form := range forms {
		switch form {
		case cdc.FormMicros2000:
			good[column] = micros(commitAt)
		case cdc.FormHex:
			good[column] = `\x00`
		case cdc.FormJSONB:
			good[column] = "\x01{}"
		case cdc.FormMySQLJSON:
			good[column] = "\x00\x00\x00\x04\x00" // {}
		default:
			good[column] = "2026-01-02T03:04:05+02:00"
		}
	}
	return good
}

// A row whose ID cannot be read is identified by its transaction and ordinal.
func TestRowWithoutID(t *testing.T) {
	for says, bad := range map[string]row{
		"column event_id is NULL":            order().without("event_id"),
		"column event_id is empty":           order().with("event_id", ""),
		"column event_id is not valid UTF-8": order().with("event_id", "\xff"),
	} {
		_, err := route(t, options(), batch(native(), order(), bad))
		stopped(t, err, cdc.ClassRuntime, "malformed", says,
			"row 1 of transaction 0/16B3748, committed at 2026-01-02T03:04:06.5Z, in public.outbox is malformed", "errors.malformed: dead_letter")
		read := batch(native(), bad)
		read.Txs[0].Commit = 0
		_, err = route(t, options(), read)
		stopped(t, err, cdc.ClassRuntime, "malformed", "a row of public.outbox, created at 2026-01-02T03:04:06.5Z, is malformed")
		o := options()
		o.Malformed = cdc.PolicyDrop
		dst, err := route(t, o, batch(native(), bad, order()))
		if err != nil || len(dst.Messages) != 1 || len(dst.Drops) != 1 || dst.Drops[0].EventID != "" {
			t.Errorf("%+v, %v", dst, err)
		}
	}
}

// errors.skip goes past an event whatever is the matter with it, in either case of its letters.
func TestSkip(t *testing.T) {
	o := options()
	o.Skip = []string{strings.ToUpper(eventID), "another"}
	good := order().with("event_id", "good")
	bad := order().without("event_type", "aggregate_id").with("headers", "x")
	dst, err := route(t, o, batch(native(), good, bad, good, order().with("event_id", "another"), good.with("event_id", "last")))
	if err != nil || len(dst.Messages) != 3 || dst.LastEventID != "last" {
		t.Fatalf("%+v, %v", dst.Messages, err)
	}
	want := []cdc.Drop{
		{Row: 1, EventID: eventID, Key: []byte("k1"), Topic: "orders", Reason: "skip"},
		{Row: 3, EventID: "another", Key: []byte("k1"), Topic: "orders", Reason: "skip"},
	}
	if fmt.Sprint(dst.Drops) != fmt.Sprint(want) {
		t.Errorf("dropped: %+v", dst.Drops)
	}
	if dst, err = route(t, o, batch(native(), bad)); err != nil || len(dst.Messages) != 0 || dst.LastEventID != "" {
		t.Errorf("a batch of nothing else: %+v, %v", dst, err)
	}
}

// Ten megabytes pass without a copy.
func TestLargePayload(t *testing.T) {
	table := native()
	setForm(table, "payload", cdc.FormBytes)
	b := batch(table, order().with("payload", strings.Repeat("x", 10<<20)))
	dst, err := route(t, options(), b)
	if err != nil || len(dst.Messages[0].Value) != 10<<20 || cap(dst.Scratch) > 1<<16 {
		t.Fatalf("%d bytes, scratch %d, %v", len(dst.Messages[0].Value), cap(dst.Scratch), err)
	}
	if value, _ := b.Value(0, table.Index("payload")); &value[0] != &dst.Messages[0].Value[0] {
		t.Error("the payload was copied")
	}
}

func TestHeartbeatHasNoMessages(t *testing.T) {
	dst, err := route(t, options(), &cdc.Batch{Seq: 1})
	if err != nil || len(dst.Messages)+len(dst.Drops) != 0 {
		t.Errorf("%+v, %v", dst, err)
	}
}

// FuzzRow puts any bytes, in any form, into any column: the row makes a record of valid UTF-8 with a good
// topic, or stops with one line that holds neither payload nor header values.
func FuzzRow(f *testing.F) {
	for column := range 14 {
		for _, raw := range []string{"", "x", "\xff", "\x01{}", `\x6f`, "a\nb", "0198c0de-0000-7000-8000-00000000002a", "2026-01-02 03:04:05+00", "12345678"} {
			f.Add(uint8(column), uint8(cdc.FormText), []byte(raw))
			f.Add(uint8(column), uint8(column%10), []byte(raw))
		}
	}
	f.Fuzz(func(t *testing.T, column, form uint8, raw []byte) {
		table := native()
		c := &table.Columns[int(column)%len(table.Columns)]
		c.Form = cdc.Form(form % uint8(cdc.FormMySQLJSON+1))
		like := order().with("payload", "SECRET").with("headers", `{"a": "SECRET"}`).with(c.Name, string(raw))
		dst, err := route(t, options(), batch(table, like))
		if err != nil {
			if text := err.Error(); strings.Contains(text, "SECRET") || strings.Contains(text, "\n") {
				t.Fatalf("column %s, form %d, %q: %s", c.Name, c.Form, raw, text)
			}
			return
		}
		m := &dst.Messages[0]
		if !regexp.MustCompile(`\A[a-zA-Z0-9._-]{1,249}\z`).MatchString(m.Topic) || !utf8.Valid(m.Key) || m.Value == nil {
			t.Fatalf("column %s, form %d, %q: %s", c.Name, c.Form, raw, golden(m))
		}
		for _, h := range m.Headers {
			if len(h.Key) == 0 || !utf8.Valid(h.Key) || !utf8.Valid(h.Value) {
				t.Fatalf("column %s, form %d, %q: %s", c.Name, c.Form, raw, golden(m))
			}
		}
	})
}
