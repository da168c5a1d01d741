package mysqljson

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"testing"
)

// documents are what MySQL 9.7 logs, in hexadecimal, and what it prints of them. test/binlog has many more.
func documents() map[string]string {
	return map[string]string{
		"": "null", "0401": "true", "0402": "false", "0400": "null", "050700": "7", "0500ff": "-256", "0600ff": "65280",
		"0c0474657874": `"text"`, "0b000000000000f03f": "1.0", "0b81e97df41022b143": "1.2345678901234568e18", "0000000400": "{}", "0200000400": "[]",
		"00010010000b0005000501003c263e0a22":   `{"<&>\n\"": 1}`,
		"0ff60f1c01800000010dfb38d2075bcd1505": "1234567890123456789.5",
		"0ff60403028132":                       "1.50",
		"0203002b000f0d000f17000f21000a080000000000c4b8190a0800000000000000000a080000000000fef37e":                                                                                                                           `["2026-01-02", "0000-00-00", "9999-12-31"]`,
		"02050045000f13000f1d000f27000f31000f3b000b0800000005310000000b080000000591cbffff0b0820a10700400600000b08ffffffffffffffff0b080000000000000000":                                                                       `["03:04:05.000000", "-838:59:59.000000", "100:00:00.500000", "-00:00:00.000001", "00:00:00.000000"]`,
		"0203002b000f0d000f17000f21000c080100000531c4b8190c0800000000000000000c08000000fb7e43b20c":                                                                                                                           `["2026-01-02 03:04:05.000001", "0000-00-00 00:00:00.000000", "1000-01-01 23:59:59.000000"]`,
		"0003006800190001001a000700210008000229000041000c5a007a72656d6f7665647265706c6163656402001800050100000a0001000e000b0001000c0c00790132010019000b000100020c007803000d000501000502000503000d61206c6f6e6765722074657874": `{"z": [1, {"y": "2"}], "removed": {"x": [1, 2, 3]}, "replaced": "a longer text"}`,
	}
}

func TestAppend(t *testing.T) {
	for digits, want := range documents() {
		document := decodeHex(t, digits)
		text, err := Append([]byte("kept"), document)
		if err != nil || string(text) != "kept"+want {
			t.Errorf("%s: %s, %v, want %s", digits, text, err, want)
		}
		for n := 1; n < len(document); n++ {
			if text, err := Append(nil, document[:n]); err == nil {
				t.Errorf("%d bytes of %s: %s", n, digits, text)
			}
		}
	}
}

func TestMalformedDocuments(t *testing.T) {
	array := func(members string) string { return "02" + members } // count, size, entries
	for name, digits := range map[string]string{
		"type":                 "0d00",
		"literal":              "0403",
		"not a number":         "0b000000000000f87f",
		"infinite":             "0b000000000000f0ff",
		"within itself":        array("01000700" + "020000"),
		"members share bytes":  array("02000f00" + "0c0a00" + "0c0a00" + "0461626364"),
		"member outside":       array("01000900" + "0c0900" + "0161"),
		"key outside":          "0001000b00" + "0b000100" + "050100",
		"too many members":     array("ffff0a00" + "050100" + "050100"),
		"length without end":   "0cffffffffffff00",
		"decimal of no digits": "0ff6020000", "scale over precision": "0ff603010280", "decimal too long": "0ff6050302813200",
		"date of 4 bytes": "0f0a0400000000", "opaque without a type": "0f",
	} {
		if text, err := Append(nil, decodeHex(t, digits)); err == nil {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestDepth(t *testing.T) {
	document := []byte{0, 0, 4, 0} // an empty array
	for depth := 1; depth <= 101; depth++ {
		text, err := Append(nil, append([]byte{2}, document...))
		if (err == nil) != (depth <= 100) {
			t.Errorf("depth %d: %s, %v", depth, text, err)
		}
		size := len(document) + 7 // one member, of type 2, behind the 7 bytes that say so
		document = append([]byte{1, 0, byte(size), byte(size >> 8), 2, 7, 0}, document...)
	}
}

func decodeHex(tb testing.TB, digits string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(digits)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// FuzzDocument holds malformed documents to an error. What comes of the others is JSON, and not much larger than they.
func FuzzDocument(f *testing.F) {
	for digits := range documents() {
		f.Add(decodeHex(f, digits))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		text, err := Append([]byte("kept"), document)
		if !bytes.HasPrefix(text, []byte("kept")) {
			t.Fatalf("%q", text)
		}
		if len(text) > 16*len(document)+16 {
			t.Errorf("%d bytes of %d", len(text), len(document))
		}
		if err == nil && !json.Valid(text[4:]) {
			t.Errorf("%q is no JSON", text[4:])
		}
	})
}
