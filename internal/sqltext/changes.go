package sqltext

import (
	"slices"
	"strings"
)

// Changes returns the first word of a statement that changes data, "" of any other. Whether executable comments were
// executed is not known everywhere, so both readings count. Unless it is plain (see Settings), strings may end elsewhere, and any
// word may be part of a query. begun: it stands in a transaction behind BEGIN, where DDL is rare, and not by itself.
func Changes(text string, begun, plain bool) string {
	oddStrings := !plain && strings.ContainsFunc(text, func(c rune) bool { return c == '\\' || c >= 0x80 })
	for _, executed := range []bool{true, false} {
		words := wordsOf(text, executed)
		if kind := changesData(words, begun); kind != "" {
			return kind
		}
		if oddStrings && len(words) > 0 && words[0] == "create" &&
			holdsQuery(strings.FieldsFunc(strings.ToLower(text), func(c rune) bool { return c < 'a' || c > 'z' })) {
			return words[0]
		}
	}
	return ""
}

// changesData returns the first word of a statement that changes data; "" of DDL and of what changes nothing.
func changesData(words []string, begun bool) string {
	if len(words) > 1 && words[0] == "set" && words[1] == "statement" { // MariaDB: SET STATEMENT … FOR the statement
		if i := slices.Index(words, "for"); i >= 0 {
			words = words[i+1:]
		}
	}
	if len(words) == 0 { // a comment, such as a dummy event
		return ""
	}
	switch word := words[0]; word {
	case "create":
		if createsFrom(words) {
			return word
		}
		return ""
	case "analyze": // MariaDB's ANALYZE UPDATE updates
		if len(words) > 1 && slices.Contains([]string{"table", "tables", "local", "no_write_to_binlog"}, words[1]) {
			return ""
		}
		return word
	case "alter", "drop", "truncate", "rename", "grant", "revoke", "flush", "optimize", "repair", "check", "install", "uninstall":
		return ""
	case "insert", "replace", "update", "delete", "load", "with", "select", "do", "call", "values", "table", "handler", "execute":
		return word
	default:
		if begun {
			return word
		}
		return ""
	}
}

// createsFrom reports whether a CREATE TABLE fills the table from a query, which may call functions. With
// binlog_format = ROW the server logs it without the query.
func createsFrom(words []string) bool {
	i := slices.Index(words, "table")
	if i < 0 || i > 4 || slices.ContainsFunc(words[1:i], func(w string) bool { return w != "or" && w != "replace" && w != "temporary" }) {
		return false
	}
	return slices.Contains(words[i+1:], "table") || holdsQuery(words[i+1:])
}

// holdsQuery: VALUES is also part of a partition's definition.
func holdsQuery(words []string) bool {
	for i, word := range words {
		if word == "select" || word == "values" && (i+1 == len(words) || words[i+1] != "less" && words[i+1] != "in") {
			return true
		}
	}
	return false
}
