package writer

import (
	"slices"
	"strings"
)

// headersJSON returns checked headers, at least one, as a JSON object with sorted names. encoding/json takes a microsecond
// and many allocations for a traceparent.
func headersJSON(headers map[string]string) string {
	var space [8]string
	names, size := space[:0], len("{}")
	for name, value := range headers {
		names = append(names, name)
		size += len(name) + len(value) + len(`"":"",`)
	}
	slices.Sort(names)
	var b strings.Builder
	b.Grow(size + size/8) // room for some escapes
	separator := byte('{')
	for _, name := range names {
		b.WriteByte(separator)
		writeJSONString(&b, name)
		b.WriteByte(':')
		writeJSONString(&b, headers[name])
		separator = ','
	}
	b.WriteByte('}')
	return b.String()
}

// writeJSONString writes valid UTF-8 as a JSON string, in which only the quote, the backslash and the
// control characters below U+0020 must be escaped (RFC 8259, section 7).
func writeJSONString(b *strings.Builder, s string) {
	const digits = "0123456789abcdef"
	b.WriteByte('"')
	done := 0
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		b.WriteString(s[done:i])
		if c < 0x20 {
			b.WriteString(`\u00`)
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&0xf])
		} else {
			b.WriteByte('\\')
			b.WriteByte(c)
		}
		done = i + 1
	}
	b.WriteString(s[done:])
	b.WriteByte('"')
}
