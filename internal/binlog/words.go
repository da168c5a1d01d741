package binlog

import "strings"

// wordsOf cuts a statement into its words, in lower case. Names in backquotes keep the one before them, so that no
// name is taken for a keyword. Strings and comments are left out, but what stands in executable comments, /*! */ and
// MariaDB's /*M! */, is part of the statement.
func wordsOf(text string) []string {
	var list []string
	for text != "" {
		n := 1
		switch c := text[0]; {
		case isWord(c):
			for n < len(text) && isWord(text[n]) {
				n++
			}
			list = append(list, strings.ToLower(text[:n]))
		case c == '`':
			n = quoted(text)
			list = append(list, "`"+strings.Trim(text[:n], "`"))
		case c == '\'', c == '"':
			n = quoted(text)
		default:
			n = skipped(text)
		}
		text = text[n:]
	}
	return list
}

// isWord: bytes from 0x80 on are letters of some alphabet.
func isWord(c byte) bool {
	return c == '_' || c == '$' || c == '@' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// quoted is the length of what stands in quotes at the front of text. A doubled quote ends it and begins the next.
func quoted(text string) int {
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && text[0] != '`':
			i++
		case text[i] == text[0]:
			return i + 1
		}
	}
	return len(text)
}

// skipped is the length of the comment, or of the beginning of the executable one, or of the one byte, at the front
// of text.
func skipped(text string) int {
	var end string
	switch {
	case strings.HasPrefix(text, "/*!"), strings.HasPrefix(text, "/*M!"):
		n := strings.IndexByte(text, '!') + 1
		for n < len(text) && '0' <= text[n] && text[n] <= '9' { // the version that executes it
			n++
		}
		return n
	case strings.HasPrefix(text, "/*"):
		end = "*/"
	case strings.HasPrefix(text, "-- "), strings.HasPrefix(text, "--\t"), strings.HasPrefix(text, "--\n"), text[0] == '#':
		end = "\n"
	default:
		return 1
	}
	if i := strings.Index(text, end); i >= 0 {
		return i + len(end)
	}
	return len(text)
}
