package router_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// FuzzHeaders holds the scanner against encoding/json: what is an object of strings, and only that, makes
// the headers that it makes there.
func FuzzHeaders(f *testing.F) {
	for _, seed := range []string{
		headers, `{}`, ` { "a" : "b" , "c" : "d" } `, `{"a":"b"`, `{"a" "b"}`, `{"a":"b",}`, `{,}`, `{"a":"b"}}`, `{"a":1}`, `null`,
		`[]`, `{"a":"\u0041"}`, `{"a":"\ud800"}`, "{\"a\":\"\xff\"}", "{\"a\":\"\t\"}", `{"ce_id":"x"}`, `{"a":{"b":"c"}}`, ``, `{"": ""}`, "\ufeff{}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		dst, err := route(t, options(), batch(native(), order().with("headers", string(raw))))
		var want map[string]json.RawMessage
		valid := utf8.Valid(raw) && json.Unmarshal(raw, &want) == nil
		for name := range want {
			lower := strings.ToLower(name)
			valid = valid && name != "" && !strings.HasPrefix(lower, "ce_") && lower != "content-type"
		}
		if (err == nil) != valid {
			t.Fatalf("%q: %v, but valid is %v", raw, err, valid)
		}
		if err != nil {
			stopped(t, err, cdc.ClassRuntime, "malformed", "column headers ")
			return
		}
		got := map[string]string{}
		for _, h := range dst.Messages[0].Headers[13:] {
			got[string(h.Key)] = quoted(h.Value)
		}
		for name, value := range want {
			if got[name] != quoted(headerValue(t, value)) {
				t.Fatalf("%q: %q is %s, want %q", raw, name, got[name], value)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%q: %v, want %v", raw, got, want)
		}
	})
}

func headerValue(t *testing.T, value json.RawMessage) []byte {
	t.Helper()
	if string(value) == "null" {
		return nil
	}
	if value[0] != '"' {
		return value
	}
	var s string
	testenv.Must(t, json.Unmarshal(value, &s))
	return []byte(s)
}
