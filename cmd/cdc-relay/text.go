package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// display returns a position as its database prints it. An LSN is stored in another form, a GTID set is not.
func display(p cdc.Position) string { return postgres.DisplayPosition(p) }

// byteSize formats a number of bytes as pg_size_pretty does.
func byteSize(n int64) string {
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

// plural returns a count with its noun.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// checkpointLocation says where the checkpoint is stored; "" if nowhere.
func checkpointLocation(c *config.Config) string {
	switch {
	case c.Checkpoint.Redis != nil:
		return fmt.Sprintf("redis %s, key %s", strings.Join(c.Checkpoint.Redis.Addrs, ","), c.Checkpoint.Redis.Key)
	case c.Checkpoint.File != "":
		return "file " + c.Checkpoint.File
	default:
		return ""
	}
}

// templated reports whether a route's topic depends on the row.
func templated(topic string) bool { return strings.Contains(topic, "${") }

// visible returns text as it is if it is printable, otherwise in quotes.
func visible(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// escaped keeps text of others on its line, and from a terminal that would do what its control characters say.
func escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		if !unicode.IsControl(r) || r == '\t' {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// oneLine returns text as it is if it is printable and not empty, otherwise in quotes.
func oneLine(text string) string {
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' }) {
		return strconv.Quote(text)
	}
	return text
}
