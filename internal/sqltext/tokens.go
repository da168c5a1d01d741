package sqltext

import "strings"

// tokensOf cuts a statement into tokens: words and numbers as they stand, a parenthesis glued to the word before it, such
// as "count(", names in their backquotes, "”" for each string, and punctuation marks. Comments are left out; executed says
// whether executable ones, /*! */ and MariaDB's /*M! */, are part of the statement. plain is false of a text that
// servers, their versions or their settings read in different ways; see Settings for the ones that it relies on.
func tokensOf(text string, executed bool) (tokens []string, plain bool) {
	plain = true
	for word := false; text != ""; {
		c, n, ok := text[0], 1, true
		wordBefore := word
		word = isWord(c)
		switch size, harmless := commentSize(text, executed); {
		case size > 0:
			n, ok = size, harmless
		case word:
			for n < len(text) && isWord(text[n]) {
				n++
			}
			tokens, ok = append(tokens, text[:n]), !strings.ContainsFunc(text[:n], isOdd)
		case c == '`':
			n, ok = quotedSize(text)
			tokens = append(tokens, text[:n])
		case c == '\'', c == '"':
			n, ok = quotedSize(text)
			tokens = append(tokens, "''")
		case c == '(' && wordBefore:
			tokens[len(tokens)-1] += "("
		case c != ' ' && (c < '\t' || c > '\r'):
			tokens = append(tokens, text[:1])
			ok = strings.IndexByte("(),.=<>!+-*/%&|^~", c) >= 0 && !strings.HasPrefix(text, "--")
		}
		text, plain = text[n:], plain && ok
	}
	return tokens, plain
}

// wordsOf are the words and names of a statement, in lower case.
func wordsOf(text string, executed bool) (words []string) {
	tokens, _ := tokensOf(text, executed)
	for _, t := range tokens {
		if isWord(t[0]) || t[0] == '`' {
			words = append(words, strings.ToLower(strings.TrimSuffix(t, "(")))
		}
	}
	return words
}

// isWord: bytes from 0x80 on are letters of some alphabet.
func isWord(c byte) bool {
	return c == '_' || c == '$' || c == '@' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// isOdd: a dollar may begin a string of MySQL 9, and letters beyond ASCII depend on the character set.
func isOdd(c rune) bool { return c == '$' || c == '@' || c >= 0x80 }

// quotedSize is the length of what stands in quotes at the front of text; ended is false if they are not closed. A
// doubled quote ends it and begins the next.
func quotedSize(text string) (n int, ended bool) {
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && text[0] != '`':
			i++
		case text[i] == text[0]:
			return i + 1, true
		}
	}
	return len(text), false
}

// commentSize is the length of the comment at the front of text, or of the beginning of an executable one if that is
// executed; 0: there is none. harmless is false if servers may execute it, or may not agree where it ends.
func commentSize(text string, executed bool) (n int, harmless bool) {
	end := "\n"
	switch {
	case strings.HasPrefix(text, "/*"):
		if executable := strings.HasPrefix(text, "/*!") || strings.HasPrefix(text, "/*M!"); executable && executed {
			n = strings.IndexByte(text, '!') + 1
			for n < len(text) && '0' <= text[n] && text[n] <= '9' { // the version that executes it
				n++
			}
			return n, false
		}
		end, n = "*/", 2
	case text[0] == '#', strings.HasPrefix(text, "--") && (len(text) == 2 || text[2] <= ' ' || text[2] == 0x7f):
	default:
		return 0, true
	}
	inside, _, found := strings.Cut(text[n:], end)
	if !found {
		return len(text), false
	}
	harmless = n > 0 && !strings.Contains(inside, "/*") && (inside == "" || !strings.ContainsRune("!M+", rune(inside[0])))
	return n + len(inside) + len(end), harmless
}

// PointName is a savepoint's name without quotes; the server compares them without case.
func PointName(text string) string {
	name := strings.TrimRight(strings.TrimSpace(text), "; ")
	return strings.ToLower(strings.ReplaceAll(strings.Trim(name, "`\""), "``", "`"))
}
