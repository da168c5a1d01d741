package record

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// headers are those besides the format's own.
type headers struct {
	fields  []field
	members outbox.Accessor
	how     Members
	rename  map[string][]byte // of how
	own     bool              // the format has some of the reserved names
}

// append appends the row's headers. One that is NULL is left out.
func (h *headers) append(dst []cdc.Header, row *outbox.Row) ([]cdc.Header, *outbox.Fault) {
	for i := range h.fields {
		text, f := row.Text(&h.fields[i].Accessor)
		if f != nil {
			return dst, f.Or("remove it from headers of the table, as headers are text")
		}
		if text != nil {
			dst = append(dst, cdc.Header{Key: h.fields[i].name, Value: text})
		}
	}
	return h.appendMembers(dst, row)
}

// appendMembers appends the members of the JSON object in a column.
func (h *headers) appendMembers(dst []cdc.Header, row *outbox.Row) ([]cdc.Header, *outbox.Fault) {
	raw, f := row.Bytes(&h.members)
	if f != nil || !outbox.ValidText(raw) {
		return dst, outbox.Bad(&h.members, "is not valid UTF-8 JSON")
	}
	if raw == nil {
		return dst, nil
	}
	first := len(dst)
	dst, ok := scanHeaders(dst, raw)
	if !ok {
		clear(dst[first:])
		if dst, ok = decodeHeaders(dst[:first], raw); !ok {
			return dst, outbox.Bad(&h.members, "is not a JSON object")
		}
	}
	kept := first
	for _, member := range dst[first:] {
		key, keep := h.name(row, member.Key)
		if !keep {
			continue
		}
		switch {
		case key == nil && len(member.Key) == 0:
			return dst, outbox.Bad(&h.members, "has a member whose name is empty, which no header may have").Or("name it in headers_drop of the table")
		case key == nil:
			return dst, outbox.Bad(&h.members, fmt.Sprintf("sets the header %.100q, which is the relay's own", member.Key)).
				Or("rename it with headers_rename of the table, or name it in headers_drop")
		}
		dst[kept] = cdc.Header{Key: key, Value: member.Value}
		kept++
	}
	clear(dst[kept:])
	return dst[:kept], nil
}

// name returns the name of the header that a member becomes; nil: it may not become one. keep is false if it is left out.
func (h *headers) name(row *outbox.Row, member []byte) (name []byte, keep bool) {
	if slices.ContainsFunc(h.how.Drop, func(dropped string) bool { return dropped == string(member) }) {
		return nil, false
	}
	name = member
	if renamed, ok := h.rename[string(member)]; ok {
		name = renamed
	}
	for h.taken(name) { // x_ too may stand before the name of a field
		if !h.how.Prefixed || len(name) == 0 {
			return nil, true
		}
		row.Draft = append(append(row.Draft[:0], "x_"...), name...)
		name = row.Keep()
	}
	return name, true
}

// taken reports whether a name is that of another header, or none.
func (h *headers) taken(name []byte) bool {
	return len(name) == 0 || h.own && outbox.ReservedHeader(name) || slices.ContainsFunc(h.fields, func(f field) bool { return bytes.Equal(f.name, name) })
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
