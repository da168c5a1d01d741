package record

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// appendMembers appends the members of the JSON object in a column.
func appendMembers(headers []cdc.Header, row *outbox.Row, column *outbox.Accessor) ([]cdc.Header, *outbox.Fault) {
	raw, f := row.Bytes(column)
	if f != nil || !outbox.ValidText(raw) {
		return headers, outbox.Bad(column, "is not valid UTF-8 JSON")
	}
	if raw == nil {
		return headers, nil
	}
	first := len(headers)
	headers, ok := scanHeaders(headers, raw)
	if !ok {
		clear(headers[first:])
		if headers, ok = decodeHeaders(headers[:first], raw); !ok {
			return headers, outbox.Bad(column, "is not a JSON object")
		}
	}
	for _, h := range headers[first:] {
		if len(h.Key) == 0 || outbox.ReservedHeader(h.Key) {
			return headers, outbox.Bad(column, fmt.Sprintf("sets the header %.100q, which is the relay's own", h.Key))
		}
	}
	return headers, nil
}

// ones times a byte is that byte eight times.
const ones = 0x0101010101010101

// scanHeaders appends the members of a flat JSON object of plain strings, which nearly all are, without a
// copy. It returns false for anything else, malformed or only rare, and may have appended part of it.
func scanHeaders(dst []cdc.Header, raw []byte) ([]cdc.Header, bool) {
	if bytes.IndexByte(raw, '\\') >= 0 || hasControl(raw) {
		return dst, false
	}
	s := skipSpace(raw)
	if len(s) == 0 || s[0] != '{' {
		return dst, false
	}
	s = skipSpace(s[1:])
	if len(s) > 0 && s[0] == '}' {
		return dst, len(skipSpace(s[1:])) == 0
	}
	for {
		key, rest, ok := cutString(s)
		if !ok {
			return dst, false
		}
		if s = skipSpace(rest); len(s) == 0 || s[0] != ':' {
			return dst, false
		}
		value, rest, ok := cutString(skipSpace(s[1:]))
		if !ok {
			return dst, false
		}
		dst = append(dst, cdc.Header{Key: key, Value: value})
		if s = skipSpace(rest); len(s) == 0 || s[0] != ',' {
			return dst, len(s) > 0 && s[0] == '}' && len(skipSpace(s[1:])) == 0
		}
		s = skipSpace(s[1:])
	}
}

func skipSpace(s []byte) []byte {
	for len(s) > 0 && s[0] == ' ' {
		s = s[1:]
	}
	return s
}

// hasControl reports whether there is a byte below 0x20. Eight at a time: subtracting 0x20 borrows from the
// top bit of a byte that is less and had none.
func hasControl(s []byte) bool {
	for ; len(s) >= 8; s = s[8:] {
		if x := binary.LittleEndian.Uint64(s); (x-0x20*ones) & ^x & (0x80*ones) != 0 {
			return true
		}
	}
	for _, c := range s {
		if c < 0x20 {
			return true
		}
	}
	return false
}

// cutString takes a JSON string without escapes off the front of s.
func cutString(s []byte) (text, rest []byte, ok bool) {
	if len(s) == 0 || s[0] != '"' {
		return nil, nil, false
	}
	s = s[1:]
	i := bytes.IndexByte(s, '"')
	if i < 0 {
		return nil, nil, false
	}
	return s[:i:i], s[i+1:], true
}

// decodeHeaders appends the members of any JSON object; JSON null has none. It copies them.
func decodeHeaders(dst []cdc.Header, raw []byte) ([]cdc.Header, bool) {
	if !json.Valid(raw) {
		return dst, false
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	switch open, err := d.Token(); {
	case err != nil:
		return dst, false
	case open == nil:
		return dst, true
	case open != json.Delim('{'):
		return dst, false
	}
	for d.More() {
		var value json.RawMessage
		name, err := d.Token()
		if err == nil {
			err = d.Decode(&value)
		}
		key, ok := name.(string)
		if err != nil || !ok {
			return dst, false
		}
		dst = append(dst, cdc.Header{Key: []byte(key), Value: headerText(value)})
	}
	return dst, true
}

// headerText renders a valid JSON value as a header's value.
func headerText(value json.RawMessage) []byte {
	switch {
	case string(value) == "null":
		return nil
	case value[0] != '"':
		return value
	}
	var s string
	_ = json.Unmarshal(value, &s) // cannot fail: it is a valid string
	return []byte(s)
}
