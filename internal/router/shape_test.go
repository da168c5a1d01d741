package router_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/record"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// typed is the native table with more columns, of many types, as a source describes it whose stream is binary or text.
func typed(binary bool) (*cdc.Table, row) {
	t, r := native(), order().without("headers", "tenant_id", "schema_id", "schema_version", "partition_key")
	for _, c := range []struct {
		name         string
		of           cdc.Type
		value        string
		form         cdc.Form
		binary       string // "": as in text
		formOfBinary cdc.Form
	}{
		{"count", cdc.TypeInteger, "-7", cdc.FormText, "\xff\xff\xff\xf9", cdc.FormInt},
		{"price", cdc.TypeDecimal, "1.50", cdc.FormText, "", 0},
		{"ratio", cdc.TypeFloat, "NaN", cdc.FormText, "", 0},
		{"zerofill", cdc.TypeInteger, "007", cdc.FormText, "", 0},
		{"paid", cdc.TypeBool, "t", cdc.FormBool, "\x01", cdc.FormBool},
		{"document", cdc.TypeJSON, `{"a": {"b": [1, "x\"y"]}, "n": null}`, cdc.FormText, "\x01" + `{"a": {"b": [1, "x\"y"]}, "n": null}`, cdc.FormJSONB},
		{"raw", cdc.TypeBytes, `\x00ff`, cdc.FormHex, "\x00\xff", cdc.FormBytes},
		{"note", cdc.TypeText, "a \"b\"\n\u2028é", cdc.FormText, "", 0},
		{"nothing", cdc.TypeText, "", cdc.FormText, "", 0},
	} {
		if binary && c.binary != "" {
			c.value, c.form = c.binary, c.formOfBinary
		}
		t.Columns = append(t.Columns, cdc.Column{Name: c.name, Type: c.of, Form: c.form})
		r[c.name] = c.value
	}
	delete(r, "nothing")
	return t, r
}

func named(fields ...string) []record.Field {
	var all []record.Field
	for _, f := range fields {
		name, column, _ := strings.Cut(f, "=")
		all = append(all, record.Field{Name: name, Part: outbox.Of(column)})
	}
	return all
}

func TestShapes(t *testing.T) {
	const attributes = "ce_id: \"" + eventID + "\"\nce_specversion: \"1.0\"\nce_source: \"/shop/outbox\"\nce_type: \"order.placed\"\n" +
		"ce_subject: \"42\"\nce_time: \"2026-01-02T03:04:05.6Z\"\ncontent-type: \"application/json\"\nce_aggregatetype: \"Order\"\n" +
		"ce_sequence: \"00000000016b3748-00000000\"\nce_committime: \"2026-01-02T03:04:06.5Z\"\n"
	structured := func(contentType, data string) string {
		if contentType != "" {
			contentType = `"datacontenttype":"` + contentType + `",`
		}
		return `{"id":"` + eventID + `","specversion":"1.0","source":"/shop/outbox","type":"order.placed","subject":"42","time":"2026-01-02T03:04:05.6Z",` +
			contentType + `"aggregatetype":"Order","sequence":"00000000016b3748-00000000","committime":"2026-01-02T03:04:06.5Z",` + data + `}`
	}
	const jsonType = "content-type: \"application/cloudevents+json; charset=UTF-8\"\n"
	for name, c := range map[string]struct {
		shape   record.Shape
		null    outbox.NullPayload
		payload cdc.Type // of the column
		change  row      // of the row; "NULL" is NULL
		value   string
		headers string
		refused string
	}{
		"plain":                  {shape: record.Shape{Format: record.FormatPlain}, value: `{"total": 1}`},
		"plain with headers":     {shape: record.Shape{Format: record.FormatPlain, Headers: named("ce_id=event_id", "n=count", "nothing=nothing")}, value: `{"total": 1}`, headers: "ce_id: \"" + eventID + "\"\nn: \"-7\"\n"},
		"plain without a type":   {shape: record.Shape{Format: record.FormatPlain}, change: row{"event_type": "NULL", "occurred_at": "NULL"}, value: `{"total": 1}`},
		"empty template":         {shape: record.Shape{Format: record.FormatPlain, Headers: []record.Field{{Name: "t", Part: outbox.Part{Template: "${topic}"}}}}, change: row{"topic": ""}, value: `{"total": 1}`, headers: "t: \"\"\n"},
		"header that is no text": {shape: record.Shape{Format: record.FormatPlain, Headers: named("x=raw")}, refused: "column raw is not valid UTF-8. Fix: remove it from headers of the table"},
		"members of plain":       {shape: record.Shape{Format: record.FormatPlain}, change: row{"headers": `{"ce_id":"a"}`}, value: `{"total": 1}`, headers: "ce_id: \"a\"\n"},
		"value": {
			shape: record.Shape{Format: record.FormatPlain, Value: append(named("c=count", "p=price", "r=ratio", "z=zerofill", "b=paid", "d=document", "y=raw", "q\"=note", "u=nothing", "t=occurred_at"),
				record.Field{Name: "const", Part: outbox.Part{Const: "x"}}, record.Field{Name: "path", Part: outbox.Part{JSON: "document", Path: "$.a.b"}},
				record.Field{Name: "all", Part: outbox.Part{JSON: "document"}}, record.Field{Name: "none", Part: outbox.Part{JSON: "document", Path: "$.n"}},
				record.Field{Name: "template", Part: outbox.Part{Template: "${count}/${price}"}})},
			value: `{"c":-7,"p":1.50,"r":"NaN","z":"007","b":true,"d":{"a": {"b": [1, "x\"y"]}, "n": null},"y":"AP8=","q\"":"a \"b\"\n` + "\u2028é" + `","u":null,"t":"2026-01-02T03:04:05.6Z",` +
				`"const":"x","path":[1, "x\"y"],"all":{"a": {"b": [1, "x\"y"]}, "n": null},"none":null,"template":"-7/1.50"}`,
		},
		"cloudevents with value":   {shape: record.Shape{Value: named("c=count")}, value: `{"c":-7}`, headers: attributes},
		"structured":               {shape: record.Shape{Format: record.FormatCloudEventsJSON}, value: structured("application/json", `"data":{"total": 1}`), headers: jsonType},
		"structured with value":    {shape: record.Shape{Format: record.FormatCloudEventsJSON, Value: named("c=count")}, value: structured("application/json", `"data":{"c":-7}`), headers: jsonType},
		"structured text":          {shape: record.Shape{Format: record.FormatCloudEventsJSON}, change: row{"content_type": "text/plain", "payload": `a"b`}, value: structured("text/plain", `"data":"a\"b"`), headers: jsonType},
		"structured json suffix":   {shape: record.Shape{Format: record.FormatCloudEventsJSON}, change: row{"content_type": "application/x+JSON; v=1"}, value: structured("application/x+JSON; v=1", `"data":{"total": 1}`), headers: jsonType},
		"structured no type":       {shape: record.Shape{Format: record.FormatCloudEventsJSON}, change: row{"content_type": "NULL"}, value: structured("", `"data":"{\"total\": 1}"`), headers: jsonType},
		"structured not JSON":      {shape: record.Shape{Format: record.FormatCloudEventsJSON}, change: row{"payload": "{"}, refused: "column payload is not JSON, which the content type says"},
		"structured tombstone":     {shape: record.Shape{Format: record.FormatCloudEventsJSON}, change: row{"payload": "NULL"}, value: "NULL", headers: attributes},
		"structured and empty":     {shape: record.Shape{Format: record.FormatCloudEventsJSON}, null: outbox.NullEmpty, change: row{"payload": "NULL"}, value: strings.Replace(structured("application/json", ""), ",}", "}", 1), headers: jsonType},
		"structured surrogate":     {shape: record.Shape{Format: record.FormatCloudEventsJSON}, change: row{"payload": `{"a":"\ud83d","a":1}`}, value: structured("application/json", `"data":{"a":"\ud83d","a":1}`), headers: jsonType},
		"structured malformed":     {shape: record.Shape{Format: record.FormatCloudEventsJSON}, null: outbox.NullMalformed, change: row{"payload": "NULL"}, refused: "column payload is NULL. Fix: set null_payload of the table to tombstone or empty, or correct"},
		"structured headers":       {shape: record.Shape{Format: record.FormatCloudEventsJSON, Headers: named("n=count")}, change: row{"headers": `{"a":"b"}`}, value: structured("application/json", `"data":{"total": 1}`), headers: jsonType + "n: \"-7\"\na: \"b\"\n"},
		"structured bytes":         {shape: record.Shape{Format: record.FormatCloudEventsJSON}, payload: cdc.TypeBytes, change: row{"content_type": "image/png", "payload": "\x00\xff"}, value: structured("image/png", `"data_base64":"AP8="`), headers: jsonType},
		"structured JSON column":   {shape: record.Shape{Format: record.FormatCloudEventsJSON}, payload: cdc.TypeJSON, change: row{"content_type": "NULL"}, value: structured("", `"data":{"total": 1}`), headers: jsonType},
		"structured no text":       {shape: record.Shape{Format: record.FormatCloudEventsJSON}, change: row{"content_type": "text/plain", "payload": "\xff"}, refused: "column payload is not valid UTF-8"},
		"value of NULL":            {shape: record.Shape{Format: record.FormatPlain, Value: named("y=raw")}, change: row{"raw": "NULL"}, value: `{"y":null}`},
		"value that is no text":    {shape: record.Shape{Value: named("n=note")}, change: row{"note": "\xff"}, refused: "column note is not valid UTF-8"},
		"value that is no JSON":    {shape: record.Shape{Value: []record.Field{{Name: "n", Part: outbox.Part{JSON: "note"}}}}, refused: "column note cannot be read: it is not JSON"},
		"headers of many types":    {shape: record.Shape{Format: record.FormatPlain, Headers: named("b=paid", "d=document", "n=note")}, value: `{"total": 1}`, headers: "b: \"true\"\nd: \"{\\\"a\\\": {\\\"b\\\": [1, \\\"x\\\\\\\"y\\\"]}, \\\"n\\\": null}\"\nn: \"a \\\"b\\\"\\n\\u2028é\"\n"},
		"confluent":                {shape: record.Shape{Format: record.FormatPlain, Confluent: true}, change: row{"schema_id": "66051"}, value: "\x00\x00\x01\x02\x03" + `{"total": 1}`},
		"confluent with a value":   {shape: record.Shape{Format: record.FormatPlain, Confluent: true, Value: named("c=count")}, change: row{"schema_id": "1"}, value: "\x00\x00\x00\x00\x01" + `{"c":-7}`},
		"confluent and tombstone":  {shape: record.Shape{Format: record.FormatPlain, Confluent: true}, change: row{"payload": "NULL"}, value: "NULL"},
		"confluent without number": {shape: record.Shape{Format: record.FormatPlain, Confluent: true}, change: row{"schema_id": "urn:x"}, refused: "column schema_id is no number of a schema"},
		"confluent with NULL":      {shape: record.Shape{Format: record.FormatPlain, Confluent: true}, refused: "column schema_id is no number of a schema"},
		"rename, drop": {
			shape:  record.Shape{Members: record.Members{Rename: map[string]string{"trace": "traceparent"}, Drop: []string{"password"}}},
			change: row{"headers": `{"trace":"t","password":"p","a\n":"b","a-name-of-more-than-thirty-two-bytes":"c"}`}, value: `{"total": 1}`,
			headers: attributes + "traceparent: \"t\"\na\n: \"b\"\na-name-of-more-than-thirty-two-bytes: \"c\"\n",
		},
		"conflict":                {change: row{"headers": `{"ce_id":"1"}`}, refused: `sets the header "ce_id", which is the relay's own. Fix: rename it with headers_rename of the table, or name it in headers_drop, or`},
		"conflict renamed":        {shape: record.Shape{Members: record.Members{Prefixed: true}}, change: row{"headers": `{"Content-Type":"1","b":"2"}`}, value: `{"total": 1}`, headers: attributes + "x_Content-Type: \"1\"\nb: \"2\"\n"},
		"nameless member":         {shape: record.Shape{Members: record.Members{Prefixed: true}}, change: row{"headers": `{"":"3"}`}, refused: "has a member whose name is empty, which no header may have. Fix: name it in headers_drop of the table"},
		"nameless member dropped": {shape: record.Shape{Members: record.Members{Drop: []string{""}}}, change: row{"headers": `{"b":"2","":"3"}`}, value: `{"total": 1}`, headers: attributes + "b: \"2\"\n"},
		"conflict renamed twice":  {shape: record.Shape{Headers: named("a=count", "x_a=count"), Members: record.Members{Prefixed: true}}, change: row{"headers": `{"a":"1"}`}, value: `{"total": 1}`, headers: attributes + "a: \"-7\"\nx_a: \"-7\"\nx_x_a: \"1\"\n"},
		"conflict with a header":  {shape: record.Shape{Headers: named("a=count"), Members: record.Members{Prefixed: true}}, change: row{"headers": `{"a":"1"}`}, value: `{"total": 1}`, headers: attributes + "a: \"-7\"\nx_a: \"1\"\n"},
	} {
		for way, binary := range map[string]bool{"text": false, "binary": true} {
			t.Run(name+"/"+way, func(t *testing.T) {
				table, r := typed(binary)
				table.Columns[table.Index("payload")].Type = c.payload
				maps.Copy(r, c.change)
				maps.DeleteFunc(r, func(_, value string) bool { return value == "NULL" })
				o := options()
				o.Tables[0].Shape, o.Tables[0].Layout = &c.shape, outbox.Layout{OnNull: c.null}
				dst, err := route(t, o, batch(table, r, r.with("aggregate_id", "another").with("note", `"none"`)))
				if c.refused != "" {
					stopped(t, err, cdc.ClassRuntime, "malformed", c.refused)
					return
				}
				testenv.Must(t, err)
				m := &dst.Messages[0]
				value := string(m.Value)
				if m.Value == nil {
					value = "NULL"
				}
				var headers strings.Builder
				for _, h := range m.Headers {
					headers.WriteString(string(h.Key) + ": " + quoted(h.Value) + "\n")
				}
				if value != c.value || headers.String() != c.headers {
					t.Errorf("got\n%s\n%s\nwant\n%s\n%s", value, headers.String(), c.value, c.headers)
				}
			})
		}
	}
}
