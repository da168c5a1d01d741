package statement

import "strings"

// Uncommented is a statement without white space and comments before it.
func Uncommented(text string) string {
	for {
		text = strings.TrimLeft(text, " \t\r\n(")
		n := 0
		if text != "" && !strings.HasPrefix(text, "/*!") && !strings.HasPrefix(text, "/*M!") {
			n, _ = commentSize(text, false)
		}
		if n == 0 {
			return text
		}
		text = text[n:]
	}
}

// Savepoint returns the name in ROLLBACK [WORK] TO [SAVEPOINT] name.
func Savepoint(text string) (name string, partial bool) {
	rest := strings.TrimSpace(text[len("ROLLBACK"):])
	for _, word := range []string{"WORK", "TO"} {
		if len(rest) > len(word) && strings.EqualFold(rest[:len(word)], word) && rest[len(word)] == ' ' {
			rest, partial = strings.TrimSpace(rest[len(word):]), word == "TO"
		}
	}
	if !partial {
		return "", false
	}
	if word := "SAVEPOINT "; len(rest) > len(word) && strings.EqualFold(rest[:len(word)], word) {
		rest = rest[len(word):]
	}
	return PointName(rest), true
}

// PointName is a savepoint's name without quotes; the server compares them without case.
func PointName(text string) string {
	name := strings.TrimRight(strings.TrimSpace(text), "; ")
	return strings.ToLower(strings.ReplaceAll(strings.Trim(name, "`"), "``", "`"))
}
