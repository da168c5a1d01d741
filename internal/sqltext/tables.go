// Package sqltext reads what a statement in the binlog names and changes from its text and status variables. It is pure.
package sqltext

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// Table is a table with its database, as a statement spells them.
type Table struct{ Database, Name string }

func (n Table) String() string { return n.Database + "." + n.Name }

// Tables are the only tables that a statement names: the one that it changes, and the one that it reads, if any.
// It calls nothing but functions of the server's, so only a trigger on the first, or a view in place of either, lets
// it write to another table. (Cascades of foreign keys fire no triggers and insert nothing; default values and generated
// columns call no stored functions.)
type Tables struct{ Changed, Read Table }

// OfRDS reports a statement on a table that Amazon RDS keeps for itself and logs so.
func (t Tables) OfRDS() bool {
	return t.Changed.Database == "mysql" && strings.HasPrefix(t.Changed.Name, "rds_") && t.Read == Table{}
}

// forms are the statements whose tables are known, by those of their words that can bring a table in; see tableWords.
// The groups are the database and the name of the table that is changed, expressions, and the same of the table that is read.
func forms() map[string]string {
	const (
		insert = "(?:insert|replace)(?: ignore)? into NAME(?:LIST)? "
		where  = "(?: (?:where|order|limit)\\b(.*))?"
	)
	return map[string]string{
		"":                 "update NAME set (.*)",
		"from":             "delete from NAME" + where,
		"into":             insert + "(?:set|values)\\b(.*)",
		"into select":      insert + "select\\b(.*)",
		"into select from": insert + "select\\b(.*) from NAME(?: (?:force|use|ignore) (?:index|key)LIST)?" + where,
	}
}

// tableWords are the words without which no table can be named. They are reserved on every server.
func tableWords() []string {
	return []string{"select", "from", "into", "table", "join", "straight_join"}
}

// TablesOf reads an INSERT, REPLACE, UPDATE or DELETE of one table, with at most one SELECT from one table. It knows a
// small part of the language on purpose: known is false of all else.
func TablesOf(text, database string) (t Tables, known bool) {
	tokens, plain := tokensOf(text, false)
	var words []string
	for i, token := range tokens {
		if word := strings.ToLower(strings.TrimSuffix(token, "(")); slices.Contains(tableWords(), word) {
			words = append(words, word)
		}
		if token[0] == '`' { // a space ends a token from here on, and no table has a question mark
			tokens[i] = strings.ReplaceAll(token, " ", "?")
		}
	}
	form, known := forms()[strings.Join(words, " ")]
	if !known || !plain {
		return Tables{}, false
	}
	form = strings.NewReplacer("NAME", "(?:(ID) \\. )?(ID)", "LIST", " ?\\( ANY(?: , ANY)* \\)").Replace(form)
	form = strings.NewReplacer("ID", "(?-i:\\w+|`[\\w$.-]+`)", "ANY", "(?:\\w+|`[^`]+`)").Replace(form)
	m := regexp.MustCompile("^(?i:" + form + ")$").FindStringSubmatch(strings.Join(tokens, " "))
	if len(m) < 4 || !callsBuiltIn(m[3]) {
		return Tables{}, false
	}
	if t.Changed = nameOf(m[1], m[2], database); len(m) == 7 {
		t.Read, known = nameOf(m[4], m[5], database), callsBuiltIn(m[6])
	}
	return t, known && t.Changed.Database != ""
}

func nameOf(database, table, current string) Table {
	return Table{strings.Trim(cmp.Or(database, current), "`"), strings.Trim(table, "`")}
}

// callsBuiltIn reports whether expressions call the server's own functions only. With a space before the parenthesis
// some of their names are those of stored functions.
func callsBuiltIn(expressions string) bool {
	tokens := strings.Fields(expressions)
	for i, token := range tokens {
		word, opens := strings.CutSuffix(strings.ToLower(token), "(")
		spaced := word == ""
		if spaced && i > 0 {
			i--
			word = strings.ToLower(tokens[i])
		}
		if !opens || word == "" || strings.ContainsAny(word[len(word)-1:], "(),=<>!+-*/%&|^~") {
			continue
		}
		keyword := slices.Contains([]string{"and", "or", "not", "in", "where", "by", "values"}, word)
		if i > 0 && tokens[i-1] == "." || !keyword && (spaced || !slices.Contains(builtIn(), word)) {
			return false
		}
	}
	return true
}

// builtIn are functions that every supported server has had in itself since its first release: a stored function
// of the same name is not called by the name alone. (MD5 and SHA1 are not: with MySQL 9.6 they moved into a component.)
func builtIn() []string {
	return []string{
		"bit_xor", "cast", "coalesce", "concat", "concat_ws", "conv", "convert", "count", "crc32", "hex", "if", "ifnull", "isnull",
		"lcase", "left", "length", "lower", "lpad", "max", "min", "now", "nullif", "round", "substring", "sum", "trim", "ucase",
		"unix_timestamp", "upper",
	}
}
