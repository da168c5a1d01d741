// Package display writes counts, sizes and text of others for people.
package display

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Bytes formats a number of bytes as pg_size_pretty does.
func Bytes(n int64) string {
	unit, value := "bytes", float64(n)
	for _, next := range []string{"kB", "MB", "GB", "TB"} {
		if value < 1024 {
			break
		}
		unit, value = next, value/1024
	}
	if unit == "bytes" {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}

// Plural returns a count with its noun.
func Plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// OrNone returns s, or "none" if it is empty.
func OrNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// Suffix returns s behind before, or "" if s is empty.
func Suffix(before, s string) string {
	if s == "" {
		return ""
	}
	return before + s
}

// Cut is Escaped of the first characters of a text.
func Cut(text string, longest int) string {
	if n := 0; len(text) > longest {
		for i := range text {
			if n++; n > longest {
				return Escaped(text[:i]) + "…"
			}
		}
	}
	return Escaped(text)
}

// Escaped keeps text of others on its line, in its direction, and from a terminal that would do what its control characters say.
func Escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsGraphic(r) || r == '\t' {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// OneLine returns text as it is if it is printable and not empty, otherwise in quotes.
func OneLine(text string) string {
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' }) {
		return strconv.Quote(text)
	}
	return text
}
