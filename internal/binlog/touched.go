package binlog

import (
	"encoding/binary"
	"regexp"
	"slices"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

// tableName is a table with its database, as a statement spells them.
type tableName struct{ database, table string }

func (n tableName) String() string { return n.database + "." + n.table }

func (n tableName) quoted() string {
	return mysql.QuoteName(n.database) + "." + mysql.QuoteName(n.table)
}

// touched are the only tables that a statement names: the one that it changes, and the one that it reads, if any.
// It calls nothing but functions of the server's, so only a trigger on the first, or a view in place of either, lets
// it write to another table. (Cascades of foreign keys fire no triggers and insert nothing; default values and generated
// columns call no stored functions.)
type touched struct{ changed, read tableName }

// ofRDS reports a statement on a table that Amazon RDS keeps for itself and logs so.
func (t touched) ofRDS() bool {
	return t.changed.database == "mysql" && strings.HasPrefix(t.changed.table, "rds_") && t.read == tableName{}
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

// touchedBy reads an INSERT, REPLACE, UPDATE or DELETE of one table, with at most one SELECT from one table. It knows a
// small part of the language on purpose: known is false of all else.
func touchedBy(text, database string) (t touched, known bool) {
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
		return touched{}, false
	}
	form = strings.NewReplacer("NAME", "(?:(ID) \\. )?(ID)", "LIST", " ?\\( ANY(?: , ANY)* \\)").Replace(form)
	form = strings.NewReplacer("ID", "(?-i:\\w+|`[\\w$.-]+`)", "ANY", "(?:\\w+|`[^`]+`)").Replace(form)
	m := regexp.MustCompile("^(?i:" + form + ")$").FindStringSubmatch(strings.Join(tokens, " "))
	if len(m) < 4 || !callsBuiltIn(m[3]) {
		return touched{}, false
	}
	if t.changed = nameOf(m[1], m[2], database); len(m) == 7 {
		t.read, known = nameOf(m[4], m[5], database), callsBuiltIn(m[6])
	}
	return t, known && t.changed.database != ""
}

func nameOf(database, table, current string) tableName {
	if database == "" {
		database = current
	}
	return tableName{strings.Trim(database, "`"), strings.Trim(table, "`")}
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

// The bits of sql_mode under which a statement is read in another way; source: sql/system_variables.h, MariaDB's sql/sql_class.h.
const (
	modeANSIQuotes         = 1 << 2
	modeIgnoreSpace        = 1 << 3
	modeMSSQL              = 1 << 10   // MariaDB: names in brackets
	modesOfOthers          = 0x1f << 8 // ORACLE, MSSQL and others
	modeNoBackslashEscapes = 1 << 20

	oddModes = modeANSIQuotes | modeIgnoreSpace | modesOfOthers | modeNoBackslashEscapes
)

// plainMode reports whether a statement was read with the usual sql_mode, in a character set none of whose letters holds
// a quote or a backslash.
func (ss *session) plainMode(variables []byte) bool {
	mode, client := uint64(oddModes), uint64(0)
	eachStatus(variables, func(kind byte, value []byte) {
		switch kind {
		case statusMode:
			mode = binary.LittleEndian.Uint64(value)
		case statusCharsets:
			client = uint64(binary.LittleEndian.Uint16(value))
		}
	})
	return mode&oddModes == 0 && ss.charsets[client] != mysql.CharsetUnknown
}
