package outbox

import (
	"encoding/hex"
	"strings"
)

// keywords are the words that PostgreSQL 14 to 18 do not accept unquoted as the name of a table or column: those of
// pg_get_keywords() with catcode R or T. An unnecessary quote is harmless.
const keywords = " all analyse analyze and any array as asc asymmetric authorization binary both case cast " +
	"check collate collation column concurrently constraint create cross current_catalog current_date " +
	"current_role current_schema current_time current_timestamp current_user default deferrable desc " +
	"distinct do else end except false fetch for foreign freeze from full grant group having ilike in " +
	"initially inner intersect into is isnull join lateral leading left like limit localtime " +
	"localtimestamp natural not notnull null offset on only or order outer overlaps placing primary " +
	"references returning right select session_user similar some symmetric system_user table tablesample " +
	"then to trailing true union unique user using variadic verbose when where window with "

// Quote returns an identifier as PostgreSQL reads it: as it is where that is safe, else in double quotes.
func Quote(identifier string) string {
	if plain(identifier) && !strings.Contains(keywords, " "+identifier+" ") {
		return identifier
	}
	return `"` + strings.ReplaceAll(identifier, `"`, `""`) + `"`
}

func plain(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// literal returns a string constant for PostgreSQL (standard_conforming_strings is on since 9.1).
func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// QuoteMySQL returns an identifier in backticks, for MySQL and MariaDB.
func QuoteMySQL(identifier string) string {
	return "`" + strings.ReplaceAll(identifier, "`", "``") + "`"
}

// mysqlLiteral returns a string constant for MySQL and MariaDB. A string with a backslash, whose meaning depends on
// sql_mode (NO_BACKSLASH_ESCAPES), is written in hex.
func mysqlLiteral(s string) string {
	if strings.Contains(s, `\`) {
		return "_utf8mb4 X'" + hex.EncodeToString([]byte(s)) + "'"
	}
	return literal(s)
}

// block returns PL/pgSQL as a DO block.
func block(body string) string { return dollar(body, "DO ") }

// dollar returns a body behind its head, in a dollar quote that the body does not contain.
func dollar(body, head string) string {
	tag := "$$"
	for strings.Contains(body, tag) {
		tag = "$_" + tag[1:]
	}
	return head + tag + "\n" + body + "\n" + tag
}
