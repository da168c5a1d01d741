package writer

import "slices"

// headersJSON returns checked headers, at least one, as a JSON object with sorted names. It stands in for
// encoding/json, which takes a microsecond and six allocations for a traceparent.
func headersJSON(headers map[string]string) string {
	var space [8]string
	names, size := space[:0], len("{}")
	for name, value := range headers {
		names = append(names, name)
		size += len(name) + len(value) + len(`"":"",`)
	}
	slices.Sort(names)
	b := make([]byte, 0, size+size/8) // with some room for escapes
	separator := byte('{')
	for _, name := range names {
		b = append(b, separator)
		b = appendJSONString(b, name)
		b = append(b, ':')
		b = appendJSONString(b, headers[name])
		separator = ','
	}
	return string(append(b, '}'))
}

// appendJSONString appends valid UTF-8 as a JSON string, in which only the quote, the backslash and the
// control characters below U+0020 must be escaped (RFC 8259, section 7).
func appendJSONString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	done := 0
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[done:i]...)
		if c < 0x20 {
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		} else {
			b = append(b, '\\', c)
		}
		done = i + 1
	}
	b = append(b, s[done:]...)
	return append(b, '"')
}
