package binlog

import (
	"strings"
)

// token is a piece of a statement. kind is one of the constants below, or the punctuation mark itself.
type token struct {
	kind byte
	// text is a word as it stands, or a name without its backquotes.
	text string
	// glued: nothing stands between it and the token before it.
	glued bool
}

const (
	wordToken   byte = 'w' // a keyword, a name, a number
	nameToken   byte = 'n' // a name in backquotes
	stringToken byte = 's'
)

func (t token) is(words ...string) bool {
	if t.kind != wordToken {
		return false
	}
	for _, word := range words {
		if strings.EqualFold(t.text, word) {
			return true
		}
	}
	return false
}

// tokensOf cuts a statement into tokens, for whoever must be sure to read it as the server does: ok is false of whatever
// servers, their versions or their settings read in different ways, such as executable comments. It expects that strings may
// be in double quotes and that backslashes escape; see plainMode.
func tokensOf(text string) (list []token, ok bool) {
	for i, glued := 0, true; i < len(text); {
		rest := text[i:]
		n := 1
		switch c := rest[0]; {
		case c == ' ', '\t' <= c && c <= '\r':
			i, glued = i+1, false
			continue
		case strings.HasPrefix(rest, "/*"):
			if n = commentSize(rest); n == 0 {
				return nil, false
			}
			i, glued = i+n, false
			continue
		case isPlain(c):
			for n < len(rest) && isPlain(rest[n]) {
				n++
			}
			list = append(list, token{wordToken, rest[:n], glued})
		case c == '`', c == '\'', c == '"':
			t, size := quotedToken(rest)
			if n = size; n == 0 {
				return nil, false
			}
			t.glued = glued
			list = append(list, t)
		case strings.IndexByte("(),.=<>!+-*/%&|^~", c) < 0, strings.HasPrefix(rest, "--"):
			return nil, false
		default:
			list = append(list, token{c, "", glued})
		}
		i, glued = i+n, true
	}
	return list, true
}

// isPlain: a dollar may begin a string of MySQL 9, and letters beyond ASCII depend on the character set.
func isPlain(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// commentSize is the size of the comment at the front of text; 0: it says something to the server, or does not end
// where it seems to.
func commentSize(text string) int {
	inside, _, found := strings.Cut(text[2:], "*/")
	if !found || strings.Contains(inside, "/*") || strings.HasPrefix(inside, "!") || strings.HasPrefix(inside, "M!") || strings.HasPrefix(inside, "+") {
		return 0
	}
	return len(inside) + 4
}

// quotedToken is the name or string at the front of text, and its size; 0: it does not end.
func quotedToken(text string) (t token, size int) {
	quote := text[0]
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quote != '`':
			i++
		case text[i] != quote:
		case i+1 < len(text) && text[i+1] == quote:
			i++
		case quote == '`':
			return token{kind: nameToken, text: strings.ReplaceAll(text[1:i], "``", "`")}, i + 1
		default:
			return token{kind: stringToken}, i + 1
		}
	}
	return token{}, 0
}
