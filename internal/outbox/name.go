package outbox

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// maxIdentifier is the maximum length of a name in bytes (NAMEDATALEN-1 in src/include/pg_config_manual.h). PostgreSQL
// truncates longer names with a notice.
const maxIdentifier = 63

// Name is the name of a table as the database spells it, without quotes. On MySQL and MariaDB, Schema is the database.
type Name struct{ Schema, Table string }

// ParseName parses "schema.table", or "table" in schema public. A part that contains a dot must be in double quotes, as in
// SQL. Case is kept.
func ParseName(s string) (Name, error) { return parseName(s, "public", '"', checkIdentifier) }

// ParseMySQLName parses "database.table", or "table" in the given database. A part that contains a dot must be in
// backticks, as in SQL. Case is kept.
func ParseMySQLName(s, database string) (Name, error) {
	return parseName(s, database, '`', checkMySQLIdentifier)
}

// parseName parses one or two identifiers that may be quoted.
func parseName(s, schema string, quote byte, check func(string) error) (Name, error) {
	first, rest, err := cutIdentifier(s, quote)
	if err == nil {
		err = check(first)
	}
	if err == nil && rest == "" {
		return Name{Schema: schema, Table: first}, nil
	}
	var second string
	if err == nil {
		second, rest, err = cutIdentifier(rest[1:], quote)
	}
	if err == nil {
		err = check(second)
	}
	if err == nil && rest != "" {
		quotes := map[byte]string{'"': "double quotes", '`': "backticks"}[quote]
		err = cdc.Fixable("write schema.table, with "+quotes+" around a part that holds a dot", "has more than two parts")
	}
	if err != nil {
		return Name{}, fmt.Errorf("table name %q %w", s, err)
	}
	return Name{Schema: first, Table: second}, nil
}

// cutIdentifier cuts an identifier from the front of s. The rest is empty or starts with a dot.
func cutIdentifier(s string, quote byte) (identifier, rest string, err error) {
	if s == "" || s[0] != quote {
		i := strings.IndexByte(s, '.')
		if i < 0 {
			i = len(s)
		}
		return s[:i], s[i:], nil
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] != quote:
			b.WriteByte(s[i])
		case i+1 < len(s) && s[i+1] == quote:
			b.WriteByte(quote)
			i++
		case i+1 < len(s) && s[i+1] != '.':
			return "", "", cdc.Fixable("write a dot after the closing quote", "continues after a closing quote")
		default:
			return b.String(), s[i+1:], nil
		}
	}
	return "", "", cdc.Fixable("close it", "lacks a closing quote")
}

func checkIdentifier(s string) error {
	switch {
	case s == "":
		return cdc.Fixable("write schema.table", "has an empty part")
	case len(s) > maxIdentifier:
		return fmt.Errorf("has a part of more than %d bytes, which PostgreSQL does not accept", maxIdentifier)
	case strings.ContainsRune(s, 0):
		return errors.New("holds a zero byte")
	default:
		return nil
	}
}

// maxMySQLIdentifier is the maximum length of a name in characters (MySQL manual, "Identifier Length Limits").
const maxMySQLIdentifier = 64

func checkMySQLIdentifier(s string) error {
	switch {
	case s == "":
		return cdc.Fixable("write database.table", "has an empty part")
	case utf8.RuneCountInString(s) > maxMySQLIdentifier:
		return fmt.Errorf("has a part of more than %d characters, which MySQL does not accept", maxMySQLIdentifier)
	case strings.ContainsRune(s, 0):
		return errors.New("holds a zero byte")
	case strings.HasSuffix(s, " "):
		return errors.New("has a part that ends with a space, which MySQL does not accept")
	default:
		return nil
	}
}

// String returns "schema.table" without quotes, for people and logs.
func (n Name) String() string {
	if n.Schema == "" {
		return n.Table
	}
	return n.Schema + "." + n.Table
}

// Configured returns the name as [ParseName] and [ParseMySQLName] read it, with quotes around a part that needs them.
func (n Name) Configured(quote string) string {
	parts := []string{n.Schema, n.Table}
	for i, part := range parts {
		if strings.ContainsAny(part, "."+quote) {
			parts[i] = quote + strings.ReplaceAll(part, quote, quote+quote) + quote
		}
	}
	return strings.TrimPrefix(strings.Join(parts, "."), ".")
}

// SQL returns the name for PostgreSQL, quoted if necessary.
func (n Name) SQL() string { return Quote(n.Schema) + "." + Quote(n.Table) }

// MySQL returns the name for MySQL and MariaDB, in backticks. Without a schema it is a table of the connection's database.
func (n Name) MySQL() string {
	if n.Schema == "" {
		return QuoteMySQL(n.Table)
	}
	return QuoteMySQL(n.Schema) + "." + QuoteMySQL(n.Table)
}
