package outbox

import (
	"errors"
	"fmt"
	"strings"
)

// maxIdentifier is how many bytes PostgreSQL keeps of a name (NAMEDATALEN-1 in
// src/include/pg_config_manual.h); it cuts longer ones off with a notice only.
const maxIdentifier = 63

// Name is the name of a table as the database spells it, without quotes.
type Name struct{ Schema, Table string }

// ParseName reads "schema.table" or "table", which is one of schema public. Either part may stand in
// double quotes, as in SQL, where it holds a dot. Letters keep their case: the name is the database's.
func ParseName(s string) (Name, error) {
	first, rest, err := cutIdentifier(s)
	if err != nil {
		return Name{}, fmt.Errorf("table name %q: %w", s, err)
	}
	if rest == "" {
		return Name{Schema: "public", Table: first}, nil
	}
	second, rest, err := cutIdentifier(rest[1:])
	if err == nil && rest != "" {
		err = errors.New("has more than two parts: write schema.table")
	}
	if err != nil {
		return Name{}, fmt.Errorf("table name %q: %w", s, err)
	}
	return Name{Schema: first, Table: second}, nil
}

// cutIdentifier takes an identifier off the front of s; what is left is empty or starts with a dot.
func cutIdentifier(s string) (identifier, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		i := strings.IndexByte(s, '.')
		if i < 0 {
			i = len(s)
		}
		return s[:i], s[i:], checkIdentifier(s[:i])
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] != '"':
			b.WriteByte(s[i])
		case strings.HasPrefix(s[i+1:], `"`):
			b.WriteByte('"')
			i++
		case i+1 < len(s) && s[i+1] != '.':
			return "", "", errors.New("goes on behind a closing quote: put a dot there")
		default:
			return b.String(), s[i+1:], checkIdentifier(b.String())
		}
	}
	return "", "", errors.New("lacks a closing quote")
}

func checkIdentifier(s string) error {
	switch {
	case s == "":
		return errors.New("has an empty part: write schema.table")
	case len(s) > maxIdentifier:
		return fmt.Errorf("is longer than %d bytes in a part: PostgreSQL has no such names", maxIdentifier)
	case strings.ContainsRune(s, 0):
		return errors.New("has a zero byte in it")
	default:
		return nil
	}
}

// String returns "schema.table" as people and logs read it, without quotes.
func (n Name) String() string { return n.Schema + "." + n.Table }

// SQL returns the name as SQL reads it, quoted where it must be.
func (n Name) SQL() string { return Quote(n.Schema) + "." + Quote(n.Table) }
