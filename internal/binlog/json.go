package binlog

import (
	"math"
	"strconv"
	"strings"
)

// appendJSON appends a JSON value as SELECT prints it. The log has it in MySQL's binary form, and go-mysql's text
// of that differs in white space and in how very large and very small numbers are written.
func appendJSON(arena []byte, text string) []byte {
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '"':
			end := stringEnd(text, i)
			arena = append(arena, text[i:end]...)
			i = end
		case c == ',' || c == ':':
			arena = append(arena, c, ' ')
			i++
		case c == '-' || c >= '0' && c <= '9':
			end := i + len(text[i:]) - len(strings.TrimLeft(text[i:], "+-.0123456789eE"))
			arena = appendJSONNumber(arena, text[i:end])
			i = end
		case c == ' ':
			i++
		default:
			arena = append(arena, c)
			i++
		}
	}
	return arena
}

// stringEnd returns where the string that begins at i ends.
func stringEnd(text string, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// appendJSONNumber writes numbers with a fraction as the server does where the exponent is large.
func appendJSONNumber(arena []byte, text string) []byte {
	v, err := strconv.ParseFloat(text, 64)
	if size := math.Abs(v); err != nil || !strings.ContainsAny(text, ".eE") || size == 0 || size >= 1e-15 && size < 1e15 {
		return append(arena, text...)
	}
	return appendFloat(arena, v, 64)
}
