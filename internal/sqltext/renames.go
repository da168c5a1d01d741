package sqltext

import (
	"bytes"
	"slices"
	"strings"
)

// Renaming is a table that a statement gives another name.
type Renaming struct{ From, To Table }

// Renamings returns what a statement renames, in each way that servers may read it.
func Renamings(sql []byte, database string, variables []byte) [][]Renaming {
	if !bytes.Contains(bytes.ToLower(sql), []byte("rename")) { // spares most statements the tokens
		return nil
	}
	text := usualQuotes(string(sql), variables)
	return slices.CompactFunc([][]Renaming{renamings(text, database, true), renamings(text, database, false)}, slices.Equal)
}

// renamings reads RENAME TABLE and ALTER TABLE ... RENAME, both of which reserve their words.
func renamings(text, database string, executed bool) (list []Renaming) {
	tokens, _ := tokensOf(text, executed)
	tokens = slices.DeleteFunc(tokens, func(t string) bool { return t == "*" || t == "/" }) // the end of an executed comment
	is := func(i int, words ...string) bool {
		return i < len(tokens) && slices.Contains(words, strings.ToLower(tokens[i]))
	}
	if is(0, "set") && is(1, "statement") { // MariaDB: SET STATEMENT … FOR the statement
		tokens = tokens[1+slices.IndexFunc(tokens, func(t string) bool { return strings.EqualFold(t, "for") }):]
	}
	name := func(i int) (n Table, next int) { // of the table whose name begins at i
		if is(i, "if") { // EXISTS
			i += 2
		}
		switch {
		case i+2 < len(tokens) && tokens[i+1] == ".":
			return nameOf(tokens[i], tokens[i+2], database), i + 3
		case i < len(tokens):
			return nameOf("", tokens[i], database), i + 1
		}
		return Table{}, i
	}
	switch {
	case is(0, "rename") && is(1, "table", "tables"):
		for i := 2; i < len(tokens); i++ {
			var r Renaming
			r.From, i = name(i)
			for i < len(tokens) && !is(i, "to") { // MariaDB: WAIT n
				i++
			}
			r.To, i = name(i + 1)
			list = append(list, r)
		}
	case is(0, "alter"):
		i := slices.IndexFunc(tokens, func(t string) bool { return strings.EqualFold(t, "table") })
		if i < 0 || i > 3 { // ONLINE, IGNORE
			return nil
		}
		from, next := name(i + 1)
		for i = next; i < len(tokens); i++ {
			if is(i, "rename") && !is(i+1, "column", "index", "key") {
				for is(i+1, "to", "as", "=") {
					i++
				}
				to, _ := name(i + 1)
				list = append(list, Renaming{from, to})
			}
		}
	}
	return slices.DeleteFunc(list, func(r Renaming) bool { return r.To.Name == "" })
}
