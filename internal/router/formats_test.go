package router_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/record"
	"github.com/cdc-relay/cdc-relay/internal/router"
)

// job is what a row of another software's table means; nil is NULL.
type job struct {
	id, kind         string
	media, note, doc *string
	number           *int64
	raw              *string
	paid             *bool
	at               *time.Time // as clocks in Kolkata showed it, in UTC
	members          map[string]string
}

const kolkata = 5*time.Hour + 30*time.Minute

// TestFormatsAgainstReference holds the records of each format against what encoding/json makes of the same rows, whatever the source's form of a
// value, over several batches through one router and one Routed.
func TestFormatsAgainstReference(t *testing.T) {
	zone, err := cdc.LoadZone("Asia/Kolkata")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		payload := rapid.SampledFrom([]outbox.Part{
			outbox.Of("note"), outbox.Of("doc"), outbox.Of("raw"), {JSON: "doc"}, {JSON: "note"}, {JSON: "doc", Path: "$.a"}, outbox.Of("number"),
		}).Draw(t, "payload")
		shape := &record.Shape{
			Format:  rapid.SampledFrom([]record.Format{record.FormatCloudEvents, record.FormatCloudEventsJSON, record.FormatPlain}).Draw(t, "format"),
			Headers: drawFields(t, "headers"),
			Members: record.Members{Rename: map[string]string{"old": "new"}, Drop: []string{"secret"}, Prefixed: true},
		}
		parts := map[string]outbox.Part{
			"event_id": outbox.Of("id"), "event_type": outbox.Of("kind"), "content_type": outbox.Of("media"), "headers": outbox.Of("members"), "occurred_at": outbox.Of("at"),
		}
		if rapid.Bool().Draw(t, "has a value") {
			shape.Value = append(drawFields(t, "value"), record.Field{Name: "of \"the\" table", Part: outbox.Part{Const: "x"}})
		} else {
			parts["payload"] = payload
		}
		layout, err := outbox.Mapped(parts)
		if err != nil {
			t.Fatal(err)
		}
		layout.Zone, layout.OnNull = zone, rapid.SampledFrom([]outbox.NullPayload{outbox.NullTombstone, outbox.NullEmpty}).Draw(t, "null")
		r := router.New(router.Options{
			Tables: []router.Table{{Name: outbox.Name{Schema: "app", Table: "jobs"}, Layout: layout, Shape: shape, Source: "/s"}}, Routes: []router.Route{{Topic: "t"}}, Malformed: cdc.PolicyDeadLetter,
		})
		tables, dst := []*cdc.Table{jobs(false), jobs(true)}, &cdc.Routed{}
		for range rapid.IntRange(1, 3).Draw(t, "batches") {
			list, table := rapid.SliceOfN(rapid.Custom(drawJob), 1, 5).Draw(t, "jobs"), rapid.SampledFrom(tables).Draw(t, "table")
			rows := make([]row, len(list))
			for i := range list {
				rows[i] = list[i].encode(table)
			}
			b := batch(table, rows...)
			arena := bytes.Clone(b.Arena)
			routeInto(t, r, b, dst)
			exact := shape.Format != record.FormatCloudEventsJSON && shape.Value == nil && payload.JSON == ""
			got := map[int32]string{}
			for i := range dst.Messages {
				got[dst.Messages[i].Row] = meaning(&dst.Messages[i], exact)
			}
			for i := range list {
				m := list[i].message(shape, &payload, layout.Null(), i)
				want := ""
				if m != nil {
					want = meaning(m, exact)
				}
				if got[int32(i)] != want {
					t.Fatalf("row %d %+v\ngot  %s\nwant %s\nrefused %v", i, rows[i], got[int32(i)], want, dst.Refused)
				}
			}
			if !bytes.Equal(arena, b.Arena) || len(dst.Messages)+len(dst.Refused) != len(list) {
				t.Fatal("the arena was written to, or a row is neither a record nor a letter")
			}
		}
	})
}

// fields are parts under names, of which headers and a value have some.
func drawFields(t *rapid.T, label string) []record.Field {
	all := append(named("note=note", "doc=doc", "number=number", "paid=paid", "at=at", "kind=kind"),
		record.Field{Name: "path", Part: outbox.Part{JSON: "doc", Path: "$.a"}}, record.Field{Name: "element", Part: outbox.Part{JSON: "doc", Path: "$.b[1]"}},
		record.Field{Name: "whole", Part: outbox.Part{JSON: "doc"}}, record.Field{Name: "text", Part: outbox.Part{JSON: "note"}},
		record.Field{Name: "template", Part: outbox.Part{Template: "${number}/${empty}/${kind}"}}, record.Field{Name: "nothing", Part: outbox.Part{Template: "${empty}"}})
	if label == "value" {
		all = append(all, named("raw=raw")...)
	}
	return rapid.SliceOfNDistinct(rapid.SampledFrom(all), 0, 5, func(f record.Field) string { return f.Name }).Draw(t, label)
}

func drawJob(t *rapid.T) job {
	j := job{id: rapid.StringMatching("[a-z0-9]{1,40}").Draw(t, "id"), kind: rapid.StringN(1, 20, -1).Draw(t, "kind"), members: map[string]string{}}
	optional := func(label string, g *rapid.Generator[string]) *string {
		if rapid.IntRange(0, 4).Draw(t, label+" is NULL") == 0 {
			return nil
		}
		s := g.Draw(t, label)
		return &s
	}
	j.media = optional("media", rapid.SampledFrom([]string{"", "application/json", "text/x+JSON ;charset=utf-8", "text/plain"}))
	j.doc = optional("doc", rapid.Custom(func(t *rapid.T) string { return drawDocument(t, 3) }))
	j.note = optional("note", rapid.OneOf(rapid.Custom(func(t *rapid.T) string { return drawDocument(t, 1) }), rapid.String(), rapid.SampledFrom([]string{"", "\xff", "{} x", "\u2028\x00\x7f", "{\"a\":\"\xff\"}", `{"a":"\ud83d"}`})))
	j.raw = optional("raw", rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) }))
	if n := rapid.Int64().Draw(t, "number"); n != 0 {
		j.number = &n
	}
	if rapid.Bool().Draw(t, "has paid") {
		paid := rapid.Bool().Draw(t, "paid")
		j.paid = &paid
	}
	if rapid.Bool().Draw(t, "has at") {
		at := time.UnixMicro(rapid.Int64Range(-1<<52, 1<<52).Draw(t, "at")).UTC()
		if at.Year() < 1950 { // when the offset of Kolkata was another
			at = at.AddDate(1950-at.Year()+1, 0, 0)
		}
		j.at = &at
	}
	for _, name := range []string{"old", "secret", "ce_id", "a-name-of-more-than-thirty-two-bytes", "\u00e9"} {
		if rapid.Bool().Draw(t, name) {
			j.members[name] = rapid.String().Draw(t, "member")
		}
	}
	return j
}

// drawJSON draws a document as an application may have written it.
func drawDocument(t *rapid.T, depth int) string {
	space := rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "space")
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return space + rapid.SampledFrom([]string{"null", "true", "false", `""`, `"\ud83d"`, `"\u0000\"\\/\u2028"`, "\"\u2028é\""}).Draw(t, "literal")
	case 1:
		return rapid.SampledFrom([]string{"0", "-0", "1e400", "1.50", "123456789012345678901234567890", "-1E-2"}).Draw(t, "number") + space
	case 2, 3:
		quoted, _ := json.Marshal(rapid.String().Draw(t, "string"))
		return space + string(quoted)
	case 4:
		var b strings.Builder
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			b.WriteString("," + space + drawDocument(t, depth-1))
		}
		return "[" + strings.TrimPrefix(b.String(), ",") + space + "]"
	default:
		var b strings.Builder
		for range rapid.IntRange(0, 4).Draw(t, "members") { // with names that stand twice
			b.WriteString("," + space + rapid.SampledFrom([]string{`"a"`, `"b"`, `"\u0061"`, `"c\ud800"`}).Draw(t, "name") + space + ":" + drawDocument(t, depth-1))
		}
		return space + "{" + strings.TrimPrefix(b.String(), ",") + space + "}"
	}
}

// jobs is the table as a source describes it whose stream is binary or text.
func jobs(binary bool) *cdc.Table {
	t := &cdc.Table{Schema: "app", Name: "jobs"}
	for _, c := range []struct {
		name         string
		of           cdc.Type
		text, binary cdc.Form
	}{
		{"id", cdc.TypeText, 0, 0},
		{"kind", cdc.TypeText, 0, 0},
		{"media", cdc.TypeText, 0, 0},
		{"note", cdc.TypeText, 0, 0},
		{"empty", cdc.TypeText, 0, 0},
		{"doc", cdc.TypeJSON, cdc.FormText, cdc.FormJSONB},
		{"members", cdc.TypeJSON, cdc.FormText, cdc.FormJSONB},
		{"number", cdc.TypeInteger, cdc.FormText, cdc.FormInt},
		{"paid", cdc.TypeBool, cdc.FormBool, cdc.FormBool},
		{"raw", cdc.TypeBytes, cdc.FormHex, cdc.FormBytes},
		{"at", cdc.TypeLocalTime, cdc.FormTimestampText, cdc.FormLocalMicros2000},
	} {
		form := c.text
		if binary {
			form = c.binary
		}
		t.Columns = append(t.Columns, cdc.Column{Name: c.name, Form: form, Type: c.of})
	}
	return t
}

// encode writes the row as the table's source hands it on.
func (j *job) encode(t *cdc.Table) row {
	members, _ := json.Marshal(j.members)
	r := row{"id": j.id, "kind": j.kind, "empty": ""}
	isBinary := t.Columns[t.Index("number")].Form == cdc.FormInt
	version := ""
	if isBinary {
		version = "\x01"
	}
	r["members"] = version + string(members)
	for name, text := range map[string]*string{"media": j.media, "note": j.note} {
		if text != nil {
			r[name] = *text
		}
	}
	if j.doc != nil {
		r["doc"] = version + *j.doc
	}
	if j.raw != nil {
		r["raw"] = *j.raw
		if !isBinary {
			r["raw"] = `\x` + hex.EncodeToString([]byte(*j.raw))
		}
	}
	if j.number != nil {
		r["number"] = strconv.FormatInt(*j.number, 10)
		if isBinary {
			r["number"] = string(binary.BigEndian.AppendUint64(nil, uint64(*j.number)))
		}
	}
	if j.paid != nil {
		r["paid"] = map[bool]string{true: "t", false: "f"}[*j.paid]
		if isBinary {
			r["paid"] = map[bool]string{true: "\x01", false: "\x00"}[*j.paid]
		}
	}
	if j.at != nil {
		r["at"] = j.at.Format("2006-01-02 15:04:05.999999")
		if isBinary {
			r["at"] = micros(j.at.UnixMicro())
		}
	}
	return r
}

// read is what encoding/json makes of a document, nil for null, and false for what is none.
func read(text string) (value any, ok bool) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if !json.Valid([]byte(text)) || !utf8.ValidString(text) {
		return nil, false
	}
	return value, d.Decode(&value) == nil
}

// bad is a value that makes a row malformed.
type bad struct{}

// value is what a part is in JSON.
func (j *job) value(p *outbox.Part) any {
	text := map[string]*string{"note": j.note, "doc": j.doc, "raw": j.raw, "kind": &j.kind}
	switch {
	case p.Const != "":
		return p.Const
	case p.Template == "${empty}":
		return ""
	case p.Template != "":
		if j.number == nil {
			return nil
		}
		return fmt.Sprintf("%d//%s", *j.number, j.kind)
	case p.JSON != "" || p.Column == "doc":
		of := text[p.JSON+p.Column]
		if of == nil {
			return nil
		}
		v, ok := read(*of)
		if !ok {
			return bad{}
		}
		object, _ := v.(map[string]any)
		switch p.Path {
		case "$.a":
			return object["a"]
		case "$.b[1]":
			if list, _ := object["b"].([]any); len(list) > 1 {
				return list[1]
			}
			return nil
		}
		return v
	}
	switch of := text[p.Column]; {
	case p.Column == "number" && j.number != nil:
		return json.Number(strconv.FormatInt(*j.number, 10))
	case p.Column == "paid" && j.paid != nil:
		return *j.paid
	case p.Column == "at" && j.at != nil:
		return j.at.Add(-kolkata).Format("2006-01-02T15:04:05.999999Z")
	case of == nil:
		return nil
	case p.Column == "raw":
		return base64.StdEncoding.EncodeToString([]byte(*of))
	case !utf8.ValidString(*of):
		return bad{}
	default:
		return *of
	}
}

// text is what a part is as text, or the bytes of a payload; nil for NULL.
func (j *job) text(p *outbox.Part) any {
	switch v := j.value(p).(type) {
	case nil:
		if p.Column == "doc" && j.doc != nil {
			return *j.doc // null
		}
		return nil
	case bad:
		if p.Column == "note" {
			return rawBytes(*j.note)
		}
		return v
	case string:
		if p.Column == "doc" {
			return *j.doc
		}
		if p.Column == "raw" {
			return *j.raw
		}
		return v
	default:
		if p.Column == "doc" {
			return *j.doc
		}
		encoded, _ := json.Marshal(v)
		return string(encoded)
	}
}

// rawBytes are no text.
type rawBytes string

// message is the record of the row; nil: it is malformed.
func (j *job) message(s *record.Shape, payload *outbox.Part, null outbox.NullPayload, at int) *cdc.Message {
	m := &cdc.Message{}
	isJSON := j.media != nil && (strings.HasPrefix(*j.media, "application/json") || strings.HasPrefix(*j.media, "text/x+JSON"))
	attributes := [][2]string{{"id", j.id}, {"specversion", "1.0"}, {"source", "/s"}, {"type", j.kind}}
	if !utf8.ValidString(j.kind) {
		return nil
	}
	if j.at != nil {
		attributes = append(attributes, [2]string{"time", j.at.Add(-kolkata).Format("2006-01-02T15:04:05.999999Z")})
	}
	if j.media != nil && *j.media != "" {
		attributes = append(attributes, [2]string{"datacontenttype", *j.media})
	}
	attributes = append(attributes, [2]string{"sequence", fmt.Sprintf("%016x-%08x", commitLSN, at)}, [2]string{"committime", "2026-01-02T03:04:06.5Z"})
	var object any
	switch {
	case s.Value != nil:
		members := map[string]any{}
		for i := range s.Value {
			v := j.value(&s.Value[i].Part)
			if v == any(bad{}) {
				return nil
			}
			members[s.Value[i].Name] = v
		}
		object = members
		m.Value, _ = json.Marshal(members)
	default:
		switch text := j.text(payload).(type) {
		case bad:
			return nil
		case rawBytes:
			m.Value = []byte(text)
		case string:
			m.Value = []byte(text)
		case nil:
			if null == outbox.NullEmpty {
				m.Value = []byte{}
			}
		}
	}
	structured := s.Format == record.FormatCloudEventsJSON && m.Value != nil
	if structured {
		event := map[string]any{}
		for _, a := range attributes {
			event[a[0]] = a[1]
		}
		switch v := j.value(payload); {
		case s.Value != nil:
			event["data"] = object
		case len(m.Value) == 0:
		case payload.JSON != "" || payload.Column == "doc" || payload.Column == "number":
			event["data"] = v
		case isJSON:
			data, ok := read(string(m.Value))
			if !ok {
				return nil
			}
			event["data"] = data
		case v == any(bad{}):
			return nil
		case payload.Column == "raw":
			event["data_base64"] = v
		default:
			event["data"] = v
		}
		m.Value, _ = json.Marshal(event)
		m.Headers = append(m.Headers, cdc.Header{Key: []byte("content-type"), Value: []byte("application/cloudevents+json; charset=UTF-8")})
	} else if s.Format != record.FormatPlain {
		for _, a := range attributes {
			name := "ce_" + a[0]
			if a[0] == "datacontenttype" {
				name = "content-type"
			}
			m.Headers = append(m.Headers, cdc.Header{Key: []byte(name), Value: []byte(a[1])})
		}
	}
	for i := range s.Headers {
		switch text := j.text(&s.Headers[i].Part).(type) {
		case bad, rawBytes:
			return nil
		case string:
			m.Headers = append(m.Headers, cdc.Header{Key: []byte(s.Headers[i].Name), Value: []byte(text)})
		}
	}
	encoded, _ := json.Marshal(j.members)
	var members map[string]string
	_ = json.Unmarshal(encoded, &members) // what is no UTF-8 is U+FFFD
	delete(members, "secret")
	for _, name := range slices.Sorted(maps.Keys(members)) {
		key := name
		switch {
		case name == "old":
			key = "new"
		case name == "ce_id" && s.Format != record.FormatPlain:
			key = "x_" + name
		}
		m.Headers = append(m.Headers, cdc.Header{Key: []byte(key), Value: []byte(members[name])})
	}
	return m
}

// meaning writes what a record says: of JSON, unless it has to be exact, what it means, and of a header with an object or an array too.
func meaning(m *cdc.Message, exact bool) string {
	normal := func(text []byte) string {
		if v, ok := read(string(text)); ok {
			text, _ = json.Marshal(v)
		}
		return quoted(text)
	}
	value := quoted(m.Value)
	if !exact && m.Value != nil {
		value = normal(m.Value)
	}
	for _, h := range m.Headers {
		text := quoted(h.Value)
		if len(h.Value) > 0 && (h.Value[0] == '{' || h.Value[0] == '[') && string(h.Key[:min(2, len(h.Key))]) != "m_" {
			text = normal(h.Value)
		}
		value += fmt.Sprintf("\n%s: %s", h.Key, text)
	}
	return value
}
