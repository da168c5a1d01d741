package writer

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// quoteTable returns the table's name with each part in quotes: double quotes, or backticks on MySQL.
func quoteTable(name, quote string) (string, error) {
	first, rest, err := cutIdentifier(name, quote)
	if err == nil && rest == "" {
		return quoteIdentifier(first, quote), nil
	}
	var second string
	if err == nil {
		second, rest, err = cutIdentifier(rest[1:], quote)
	}
	if err == nil && rest != "" {
		err = errors.New("has more than two parts: write schema.table")
	}
	if err != nil {
		return "", fmt.Errorf("table name %q %w", name, err)
	}
	return quoteIdentifier(first, quote) + "." + quoteIdentifier(second, quote), nil
}

// cutIdentifier cuts a plain or quoted identifier from the front of s. The rest is empty or starts with a dot.
func cutIdentifier(s, quote string) (identifier, rest string, err error) {
	if !strings.HasPrefix(s, quote) {
		i := strings.IndexByte(s, '.')
		if i < 0 {
			i = len(s)
		}
		return s[:i], s[i:], checkIdentifier(s[:i])
	}
	for i := 1; i < len(s); i++ {
		if s[i] != quote[0] {
			continue
		}
		if strings.HasPrefix(s[i+1:], quote) {
			i++
			continue
		}
		if rest = s[i+1:]; rest != "" && rest[0] != '.' {
			return "", "", errors.New("continues after a closing quote: put a dot there")
		}
		identifier = strings.ReplaceAll(s[1:i], quote+quote, quote)
		return identifier, rest, checkIdentifier(identifier)
	}
	return "", "", errors.New("lacks a closing quote")
}

func checkIdentifier(s string) error {
	switch {
	case s == "":
		return errors.New("has an empty part: write table or schema.table")
	case strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s):
		return errors.New("is not UTF-8 or contains U+0000: write it as the database does")
	default:
		return nil
	}
}

func quoteIdentifier(s, quote string) string {
	return quote + strings.ReplaceAll(s, quote, quote+quote) + quote
}
