package binlog

import (
	"encoding/binary"
	"slices"
	"strings"
)

// tableName is a table with its database, as a statement spells them.
type tableName struct{ database, table string }

func (n tableName) String() string { return n.database + "." + n.table }

func (n tableName) quoted() string { return mysqlName(n.database) + "." + mysqlName(n.table) }

// touched are the only tables that a statement names: the one that it changes, and the one that it reads, if any.
// It calls nothing but functions of the server's, so only a trigger on the first, or a view in place of either, lets
// it write to another table. (Cascades of foreign keys fire no triggers and insert nothing; default values and generated
// columns call no stored functions.)
type touched struct{ changed, read tableName }

// touchedBy reads an INSERT, REPLACE, UPDATE or DELETE of one table, with at most one SELECT from one table. It knows a
// small part of the language on purpose: known is false of all else.
func touchedBy(text, database string) (t touched, known bool) {
	tokens, ok := tokensOf(text)
	if !ok {
		return touched{}, false
	}
	r := &statementReader{tokens: tokens, database: database}
	if !r.head() || !r.body() || r.changed == (tableName{}) {
		return touched{}, false
	}
	return r.touched, true
}

type statementReader struct {
	touched

	tokens    []token
	last      token // the one before tokens
	database  string
	selecting bool // a SELECT has begun, its FROM has not come
}

func (r *statementReader) peek() token {
	if len(r.tokens) == 0 {
		return token{}
	}
	return r.tokens[0]
}

func (r *statementReader) next() token {
	t := r.peek()
	if len(r.tokens) > 0 {
		r.tokens = r.tokens[1:]
	}
	r.last = t
	return t
}

// skip goes past one of the words.
func (r *statementReader) skip(words ...string) bool {
	if !r.peek().is(words...) {
		return false
	}
	r.next()
	return true
}

// head goes up to where expressions begin.
func (r *statementReader) head() bool {
	switch {
	case r.skip("replace", "insert"):
		r.skip("ignore")
		if !r.skip("into") || !r.name(&r.changed) || r.peek().kind == '(' && !r.list() {
			return false
		}
		r.selecting = r.peek().is("select")
		return r.skip("select", "set", "values")
	case r.skip("update"):
		return r.name(&r.changed) && r.skip("set")
	case r.skip("delete"):
		return r.skip("from") && r.name(&r.changed) && r.ends()
	}
	return false
}

// ends: no other table, alias or partition follows a table.
func (r *statementReader) ends() bool {
	return len(r.tokens) == 0 || r.peek().is("where", "order", "limit")
}

// name reads a table's name. One with a backquote in it is not known: see ddl.
func (r *statementReader) name(into *tableName) bool {
	part := func() string {
		if t := r.next(); t.kind == nameToken && !strings.Contains(t.text, "`") || t.kind == wordToken {
			return t.text
		}
		return ""
	}
	*into = tableName{r.database, part()}
	if r.peek().kind == '.' {
		r.next()
		*into = tableName{into.table, part()}
	}
	return into.database != "" && into.table != "" && r.peek().kind != '.'
}

// list reads names in parentheses.
func (r *statementReader) list() bool {
	if r.next().kind != '(' {
		return false
	}
	for {
		if t := r.next(); t.kind != nameToken && t.kind != wordToken {
			return false
		}
		if t := r.next(); t.kind != ',' {
			return t.kind == ')'
		}
	}
}

// queries are the words without which no table can be named in an expression, and some that ask for more than is
// known here. All are reserved on every server, or end the statement for another reason.
func queries() []string {
	return []string{
		"select", "from", "into", "table", "with", "values", "union", "except", "intersect", "minus", "join", "straight_join", "lateral",
		"procedure", "call", "next", "previous", "over", "window", "for", "lock", "returning", "member",
	}
}

// body goes through expressions to the end.
func (r *statementReader) body() bool {
	for len(r.tokens) > 0 {
		before := r.last
		t := r.next()
		switch {
		case t.kind == '(':
			if !mayOpen(before, t) {
				return false
			}
		case r.selecting && t.is("from"):
			if r.selecting = false; !r.source() {
				return false
			}
		case t.is(queries()...):
			return false
		}
		if before.kind == '.' && t.kind == wordToken && r.peek().kind == '(' { // a function of a database
			return false
		}
	}
	return true
}

// source is what stands behind FROM.
func (r *statementReader) source() bool {
	if !r.name(&r.read) {
		return false
	}
	if r.skip("force", "use", "ignore") && (!r.skip("index", "key") || !r.list()) {
		return false
	}
	return r.ends()
}

// mayOpen reports whether a parenthesis behind the token calls no function, or one of the server's own. With a space
// before the parenthesis some names are those of stored functions.
func mayOpen(before, parenthesis token) bool {
	switch before.kind {
	case wordToken:
		return before.is("and", "or", "not", "in", "where", "by", "values", "select") ||
			parenthesis.glued && slices.Contains(builtIn(), strings.ToLower(before.text))
	case nameToken, stringToken, '.':
		return false
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

// oddModes are the bits of sql_mode under which a statement is read in another way; source: sql/system_variables.h,
// MariaDB's sql/sql_class.h.
const oddModes = 1<<2 | // ANSI_QUOTES
	1<<3 | // IGNORE_SPACE
	0x1f<<8 | // of other products, ORACLE among them
	1<<20 // NO_BACKSLASH_ESCAPES

// plainly reports whether a statement was read with the usual sql_mode, in a character set without letters that hold
// a quote or a backslash.
func (ss *session) plainly(variables []byte, text string) bool {
	mode, client := uint64(oddModes), uint64(0)
	eachStatus(variables, func(kind byte, value []byte) {
		switch kind {
		case statusMode:
			mode = binary.LittleEndian.Uint64(value)
		case statusCharsets:
			client = uint64(binary.LittleEndian.Uint16(value))
		}
	})
	beyond := strings.IndexFunc(text, func(c rune) bool { return c > '~' }) >= 0
	return mode&oddModes == 0 && (!beyond || ss.charsets[client] != charsetUnknown)
}
