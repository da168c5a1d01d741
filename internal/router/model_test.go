package router_test

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// event is what a row of the native table means; a column that is not there is NULL.
type event struct {
	id            byte              // sixteen times this; 0 is NULL
	text          map[string]string // the text columns
	version       *int32
	headers       *headerSet
	payload       *string
	at            int64 // occurred_at in Unix microseconds
	hasNoAt, inf  bool  // NULL, infinity
	localTimeOnly bool  // printed without its zone
}

// headerSet is a headers column: its JSON, and the headers that it means. bad says that it means none.
type headerSet struct {
	json string
	want []string // as golden prints them
	bad  bool
}

// textColumns are the text columns with good values, and a bad one or two that come rarely.
func textColumns() map[string][2][]string {
	return map[string][2][]string{
		"aggregate_type": {{"Order", "a", "bcd", "x.Y-1", "", "Größe"}, {"\xff"}},
		"aggregate_id":   {{"1", "42", "ä", ""}, {"\xff"}},
		"event_type":     {{"order.placed", "x.Y-1", "ab.", "plain"}, {"", "\xff"}},
		"tenant_id":      {{"acme", "b", "", "with space"}, {"\xc3"}},
		"topic":          {{"", "orders", "T.x_y-z", strings.Repeat("t", 249)}, {"..", "bad topic", strings.Repeat("t", 250), "\xff"}},
		"partition_key":  {{"", "k"}, {"\xff"}},
		"content_type":   {{"application/json", ""}, {"\xff"}},
		"schema_id":      {{"urn:s", ""}, {"\xff"}},
		"extra":          {{"x", "X9", "yz", ""}, {"\xff"}},
	}
}

func drawEvent(t *rapid.T) event {
	e := event{
		id:      byte(rapid.IntRange(0, 20).Draw(t, "id")),
		text:    map[string]string{},
		version: rapid.Ptr(rapid.Int32Range(-1, 12), true).Draw(t, "version"),
		headers: rapid.Ptr(rapid.Custom(drawHeaders), true).Draw(t, "headers"),
		payload: rapid.Ptr(rapid.String(), true).Draw(t, "payload"),
		// The years 1 to 9999.
		at:      rapid.Int64Range(-62_135_596_800_000_000, 253_402_300_799_999_999).Draw(t, "at"),
		hasNoAt: rarely(t, "at is NULL"), inf: rarely(t, "at is infinite"), localTimeOnly: rapid.Bool().Draw(t, "local"),
	}
	columns := textColumns()
	for _, name := range slices.Sorted(maps.Keys(columns)) {
		optional := name != "aggregate_type" && name != "aggregate_id" && name != "event_type"
		switch {
		case rarely(t, name+" is bad"):
			e.text[name] = rapid.SampledFrom(columns[name][1]).Draw(t, name)
		case !rarely(t, name+" is NULL") && (!optional || rapid.Bool().Draw(t, name+" is set")):
			e.text[name] = rapid.SampledFrom(columns[name][0]).Draw(t, name)
		}
	}
	return e
}

func rarely(t *rapid.T, label string) bool { return rapid.IntRange(0, 60).Draw(t, label) == 60 }

func drawHeaders(t *rapid.T) headerSet {
	if rarely(t, "malformed") {
		return headerSet{bad: true, json: rapid.SampledFrom([]string{
			"", "[]", `"x"`, "1", `{"a"}`, `{"a":"b",}`, `{"a":"b"}x`, `{"a":"b"`, "{\"a\":\"\xff\"}", "{\"a\":\"\n\"}", `{a:1}`,
		}).Draw(t, "json")}
	}
	if rarely(t, "null") {
		return headerSet{json: "null"}
	}
	space := rapid.SampledFrom([]string{"", " ", "\n\t "})
	h := headerSet{json: space.Draw(t, "space") + "{" + space.Draw(t, "space")}
	for i := range rapid.IntRange(0, 4).Draw(t, "members") {
		if i > 0 {
			h.json += space.Draw(t, "space") + "," + space.Draw(t, "space")
		}
		name := rapid.SampledFrom([]string{"traceparent", "x-a", "ä", `quo"te`, "c", "ce", "content"}).Draw(t, "name")
		if rarely(t, "reserved") {
			name = rapid.SampledFrom([]string{"", "ce_id", "Ce_x", "CONTENT-TYPE"}).Draw(t, "reserved name")
			h.bad = true
		}
		value, want := drawJSON(t)
		h.json += quoteJSON(t, name) + space.Draw(t, "space") + ":" + space.Draw(t, "space") + value
		h.want = append(h.want, fmt.Sprintf("%s: %s\n", name, want))
	}
	h.json += space.Draw(t, "space") + "}" + space.Draw(t, "space")
	return h
}

// drawJSON draws a JSON value and what a header makes of it.
func drawJSON(t *rapid.T) (value, want string) {
	if rapid.Bool().Draw(t, "a string") {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z0-9-]*`)).Draw(t, "value")
		return quoteJSON(t, s), quoted([]byte(s))
	}
	value = rapid.SampledFrom([]string{"null", "true", "-1.5e3", `{"a": [1, "}"]}`, "[]"}).Draw(t, "value")
	if value == "null" {
		return value, "null"
	}
	return value, quoted([]byte(value))
}

// quoteJSON writes a string with as many escapes as there may be, or as few.
func quoteJSON(t *rapid.T, s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(rapid.Bool().Draw(t, "escape"))
	testenv.Must(t, enc.Encode(s))
	return strings.TrimSpace(b.String())
}

// drawTable puts the columns in any order, in any form that a source may choose.
func drawTable(t *rapid.T) *cdc.Table {
	forms := map[string][]cdc.Form{
		"event_id":       {cdc.FormText, cdc.FormUUID},
		"schema_version": {cdc.FormText, cdc.FormInt},
		"headers":        {cdc.FormText, cdc.FormJSONB, cdc.FormHex},
		"payload":        {cdc.FormBytes, cdc.FormHex, cdc.FormText, cdc.FormJSONB},
		"occurred_at":    {cdc.FormMicros2000, cdc.FormLocalMicros2000, cdc.FormTimestampText},
	}
	for name := range textColumns() {
		forms[name] = []cdc.Form{cdc.FormText, cdc.FormBytes}
	}
	table := &cdc.Table{Schema: "public", Name: "outbox"}
	for _, name := range rapid.Permutation(slices.Sorted(maps.Keys(forms))).Draw(t, "columns") {
		table.Columns = append(table.Columns, cdc.Column{Name: name, Form: rapid.SampledFrom(forms[name]).Draw(t, name)})
	}
	return table
}

// encode makes the row of the event that a source with these forms would hand on.
func (e *event) encode(table *cdc.Table) row {
	r := row(maps.Clone(e.text))
	form := func(column string) cdc.Form { return table.Columns[table.Index(column)].Form }
	if e.id != 0 {
		r["event_id"] = e.uuid()
		if form("event_id") == cdc.FormUUID {
			r["event_id"] = strings.Repeat(string([]byte{e.id}), 16)
		}
	}
	if e.version != nil {
		r["schema_version"] = strconv.Itoa(int(*e.version))
		if form("schema_version") == cdc.FormInt {
			r["schema_version"] = string(binary.BigEndian.AppendUint32(nil, uint32(*e.version)))
		}
	}
	if e.headers != nil {
		r["headers"] = encodeBytes(form("headers"), e.headers.json)
	}
	if e.payload != nil {
		r["payload"] = encodeBytes(form("payload"), *e.payload)
	}
	if !e.hasNoAt {
		r["occurred_at"] = e.encodeTime(form("occurred_at"))
	}
	return r
}

func encodeBytes(f cdc.Form, s string) string {
	switch f {
	case cdc.FormHex:
		return `\x` + hex.EncodeToString([]byte(s))
	case cdc.FormJSONB:
		return "\x01" + s
	default:
		return s
	}
}

func (e *event) encodeTime(f cdc.Form) string {
	switch {
	case f != cdc.FormTimestampText && e.inf:
		return "\x7f\xff\xff\xff\xff\xff\xff\xff"
	case f != cdc.FormTimestampText:
		return micros(e.at)
	case e.inf:
		return "infinity"
	case e.localTimeOnly:
		return time.UnixMicro(e.at).UTC().Format("2006-01-02 15:04:05.999999")
	default:
		return time.UnixMicro(e.at).UTC().Format("2006-01-02 15:04:05.999999") + "+00"
	}
}

func (e *event) uuid() string {
	h := strings.Repeat(fmt.Sprintf("%02x", e.id), 16)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
