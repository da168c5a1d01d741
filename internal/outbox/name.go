package outbox

import (
	"cmp"
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

// ParseName parses "schema.table", or "table" in schema public. Case is kept.
func ParseName(s string) (Name, error) { return parseName(s, "public", checkIdentifier) }

// ParseMySQLName parses "database.table", or "table" in the given database. Case is kept.
func ParseMySQLName(s, database string) (Name, error) {
	return parseName(s, database, checkMySQLIdentifier)
}

func parseName(s, schema string, check func(string) error) (Name, error) {
	first, second, two := strings.Cut(s, ".")
	n, err := Name{Schema: schema, Table: first}, check(first)
	if two {
		n, err = Name{Schema: first, Table: second}, cmp.Or(err, check(second))
	}
	if err != nil {
		return Name{}, fmt.Errorf("table name %q %w", s, err)
	}
	return n, nil
}

func checkIdentifier(s string) error {
	switch {
	case s == "":
		return cdc.Fixable("write schema.table", "has an empty part")
	case strings.ContainsAny(s, `."`):
		return cdc.Fixable("write schema.table without quotes; a name with a dot is not read", "has quotes, or more than two parts")
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
	case strings.ContainsAny(s, ".`"):
		return cdc.Fixable("write database.table without backticks; a name with a dot is not read", "has backticks, or more than two parts")
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

// SQL returns the name for PostgreSQL, quoted if necessary.
func (n Name) SQL() string { return Quote(n.Schema) + "." + Quote(n.Table) }

// MySQL returns the name for MySQL and MariaDB, in backticks. Without a schema it is a table of the connection's database.
func (n Name) MySQL() string {
	if n.Schema == "" {
		return QuoteMySQL(n.Table)
	}
	return QuoteMySQL(n.Schema) + "." + QuoteMySQL(n.Table)
}
