package cdc_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// What a server is asked for in both formats is in TestFormsOfPostgres; here are the ends of ranges and what is odd.
func TestAppendText(t *testing.T) {
	tests := []struct {
		name string
		form cdc.Form
		raw  string
		want string
	}{
		{"empty text", cdc.FormText, "", ""},
		{"hex", cdc.FormHex, `\x00fF`, "\x00\xff"},
		{"MySQL's JSON", cdc.FormMySQLJSON, "\x02\x01\x00\x07\x00\x05\x07\x00", "[7]"},
		{"MySQL's empty JSON", cdc.FormMySQLJSON, "", "null"},
		{"year 0", cdc.FormMicros2000, micros(-63_113_904_000_000_000), "0000-01-01T00:00:00Z"},
		// The ends of the type's range (MIN_TIMESTAMP and END_TIMESTAMP-1 in datatype/timestamp.h).
		{"earliest", cdc.FormMicros2000, micros(-211_813_488_000_000_000), "-4713-11-24T00:00:00Z"},
		{"latest", cdc.FormMicros2000, micros(9_223_371_331_199_999_999), "294276-12-31T23:59:59.999999Z"},
		{"int4", cdc.FormInt, "\x80\x00\x00\x00", "-2147483648"},
		{"int8", cdc.FormInt, "\x7f\xff\xff\xff\xff\xff\xff\xff", "9223372036854775807"},
		{"without zone", cdc.FormTimestampText, "2026-01-02 03:04:05", "2026-01-02T03:04:05Z"},
		{"hours east", cdc.FormTimestampText, "2026-01-02 03:04:05+02", "2026-01-02T03:04:05+02:00"},
		{"minutes west", cdc.FormTimestampText, "2026-01-02 03:04:05.25-03:30", "2026-01-02T03:04:05.25-03:30"},
		{"local mean time", cdc.FormTimestampText, "1883-11-18 12:00:00-04:56:02", "1883-11-18 12:00:00-04:56:02"},
		{"BC", cdc.FormTimestampText, "0044-03-15 12:00:00+00 BC", "0044-03-15 12:00:00+00 BC"},
		{"five digits", cdc.FormTimestampText, "12026-01-02 03:04:05+00", "12026-01-02 03:04:05+00"},
		{"a date", cdc.FormTimestampText, "2026-01-02", "2026-01-02"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.form.AppendText([]byte("before "), []byte(tt.raw))
			if err != nil || string(got) != "before "+tt.want {
				t.Errorf("got %q, %v; want %q behind what was there", got, err, tt.want)
			}
		})
	}
}

func TestMalformedValues(t *testing.T) {
	tests := []struct {
		form cdc.Form
		raw  string
		says string
	}{
		{cdc.FormHex, "abc", "bytea_output"},
		{cdc.FormHex, `\`, "bytea_output"},
		{cdc.FormHex, `\x1`, "odd length"},
		{cdc.FormHex, `\x1g`, "invalid byte"},
		{cdc.FormJSONB, "", "version"},
		{cdc.FormJSONB, "\x02{}", "version"},
		{cdc.FormMySQLJSON, "\x02\x01\x00\x07\x00\x05\x07", "malformed JSON"},
		{cdc.FormUUID, "123", "3 bytes"},
		{cdc.FormMicros2000, "1234567", "7 bytes"},
		{cdc.FormLocalMicros2000, "", "0 bytes"},
		{cdc.FormInt, "123", "3 bytes"},
		{cdc.FormBool, "", "0 bytes"},
		{cdc.FormBool, "\x02", "boolean 2"},
		{cdc.Form(200), "x", "form 200"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d %q", tt.form, tt.raw), func(t *testing.T) {
			if _, err := tt.form.AppendText(nil, []byte(tt.raw)); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("AppendText: %v, want one that says %q", err, tt.says)
			}
			if _, _, err := tt.form.Bytes(nil, []byte(tt.raw)); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("Bytes: %v, want one that says %q", err, tt.says)
			}
		})
	}
}

// Bytes hands on what needs no change without a copy, and appends the rest to dst.
func TestOctetsCopiesOnlyWhatChanges(t *testing.T) {
	raw := []byte("\x01{}")
	for form, want := range map[cdc.Form][]byte{cdc.FormText: raw, cdc.FormBytes: raw, cdc.FormJSONB: raw[1:]} {
		got, grown, err := form.Bytes(nil, raw)
		if err != nil || len(grown) != 0 || &got[0] != &want[0] || len(got) != len(want) {
			t.Errorf("form %d: %q, %d bytes appended, %v", form, got, len(grown), err)
		}
	}
	got, grown, err := cdc.FormHex.Bytes([]byte("before"), []byte(`\x6f6b`))
	if err != nil || string(got) != "ok" || string(grown) != "beforeok" || cap(got) != 2 {
		t.Errorf("hex: %q (cap %d) in %q, %v", got, cap(got), grown, err)
	}
	got, grown, err = cdc.FormMySQLJSON.Bytes([]byte("before"), []byte("\x04\x01"))
	if err != nil || string(got) != "true" || string(grown) != "beforetrue" || cap(got) != 4 {
		t.Errorf("MySQL's JSON: %q (cap %d) in %q, %v", got, cap(got), grown, err)
	}
	got, grown, err = cdc.FormInt.Bytes([]byte("before"), []byte{0, 7})
	if err != nil || string(got) != "7" || string(grown) != "before7" || cap(got) != 1 {
		t.Errorf("int: %q (cap %d) in %q, %v", got, cap(got), grown, err)
	}
}

func micros(since2000 int64) string { return big(since2000, 8) }

// big is n's last bytes, big-endian.
func big(n int64, size int) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(n))[8-size:])
}

// No value, however malformed, panics, touches what dst held, or reads as something else a second time.
func FuzzForms(f *testing.F) {
	for _, raw := range []string{
		"", "t", `\x`, `\x00ff`, "\x01{}", "\x00\x00\x00\x01", "12345678", "0123456789abcdef", "infinity",
		"2026-01-02 03:04:05.6+00", "2026-01-02 03:04:05.", "2026-01-02 03:04:05+", "0044-03-15 12:00:00 BC",
		"\x7f\xff\xff\xff\xff\xff\xff\xfe", "\x80\x00\x00\x00\x00\x00\x00\x01",
	} {
		for form := range cdc.FormTimestampText + 2 {
			f.Add(uint8(form), []byte(raw))
		}
	}
	f.Fuzz(func(t *testing.T, form uint8, raw []byte) {
		before := bytes.Clone(raw)
		text, err := cdc.Form(form).AppendText([]byte("kept"), raw)
		if !bytes.HasPrefix(text, []byte("kept")) {
			t.Fatalf("dst became %q", text)
		}
		value, grown, err2 := cdc.Form(form).Bytes([]byte("kept"), raw)
		if !bytes.HasPrefix(grown, []byte("kept")) || (err == nil) != (err2 == nil) {
			t.Fatalf("Bytes: dst became %q, %v; AppendText: %v", grown, err2, err)
		}
		if err == nil && !bytes.Equal(value, text[4:]) {
			t.Fatalf("bytes %q, text %q", value, text[4:])
		}
		if !bytes.Equal(raw, before) {
			t.Fatal("the value was changed")
		}
	})
}

// Whatever form a time has, in a zone it is the moment of the clock; what is no time of the calendar stays as it is.
func TestAppendShown(t *testing.T) {
	z := zone(t, "Europe/Berlin")
	for raw, want := range map[string]string{
		"2026-07-15 12:00:00": "2026-07-15T10:00:00Z", "2026-10-25 02:30:00.123456": "2026-10-25T00:30:00.123456Z", "2026-03-29 02:30:00": "2026-03-29T01:00:00Z",
		"2026-01-01 00:30:00.1": "2025-12-31T23:30:00.1Z", "2026-07-15 12:00:00+00": "2026-07-15T12:00:00Z", "infinity": "infinity",
		"0044-03-15 12:00:00 BC": "0044-03-15 12:00:00 BC", "12026-01-02 03:04:05": "12026-01-02 03:04:05", "0000-00-00 00:00:00": "0000-00-00T00:00:00Z",
		"2026-00-15 00:00:00": "2026-00-15T00:00:00Z", "2026-02-30 00:00:00": "2026-02-30T00:00:00Z", "2026-07-15 12:00:0x": "2026-07-15T12:00:0xZ", "": "",
	} {
		if got, err := cdc.FormTimestampText.AppendShown(nil, []byte(raw), z); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", raw, got, err, want)
		}
		at, err := time.Parse("2006-01-02 15:04:05.999999", raw)
		if err != nil {
			continue
		}
		binary := micros(at.UnixMicro() - 946684800000000)
		if got, err := cdc.FormLocalMicros2000.AppendShown(nil, []byte(binary), z); err != nil || string(got) != want {
			t.Errorf("%s in binary: %s, %v; want %s", raw, got, err, want)
		}
	}
	for raw, want := range map[string]string{micros(1<<63 - 1): "infinity", micros(-1 << 63): "-infinity"} {
		if got, err := cdc.FormLocalMicros2000.AppendShown(nil, []byte(raw), z); err != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
	if _, err := cdc.FormLocalMicros2000.AppendShown(nil, []byte("short"), z); err == nil {
		t.Error("a timestamp of 5 bytes")
	}
}
