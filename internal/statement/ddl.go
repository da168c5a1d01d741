package statement

import (
	"slices"
	"strings"
)

// TakesAway reports whether a statement may have taken a trigger, a view or a table away. What only creates does
// not: the catalog has it.
func TakesAway(text string) bool {
	if tokens, plain := tokensOf(text, false); plain && len(tokens) > 0 && slices.Contains([]string{"insert", "replace", "update", "delete"}, strings.ToLower(tokens[0])) {
		return false
	}
	text = strings.ToLower(text)
	return slices.ContainsFunc([]string{"drop", "rename", "replace", "convert"}, func(word string) bool { return strings.Contains(text, word) })
}

// On reports whether DDL may have been on the table: triggers are dropped without their table's name. In plain names,
// which alone get here, there is nothing to escape, so they stand in the text as they are.
func On(ddl string, n Table) bool {
	has := func(part string) bool { return strings.Contains(ddl, strings.ToLower(part)) }
	return strings.ContainsFunc(ddl, func(c rune) bool { return c >= 0x80 }) ||
		has(n.Database) && (has(n.Name) || has("trigger") || has("database") || has("schema"))
}
