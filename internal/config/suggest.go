package config

import "strings"

// closest returns the candidate that is most similar to word, or "". It ignores case, dashes and underscores.
func closest(word string, candidates []string) string {
	best, bestDistance := "", 3
	for _, c := range candidates {
		a, b := fold(word), fold(c)
		d := edits(a, b, bestDistance)
		if d < bestDistance && d*2 < max(len(a), len(b)) {
			best, bestDistance = c, d
		}
	}
	return best
}

func fold(s string) string {
	return strings.ToLower(strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' {
			return -1
		}
		return r
	}, s))
}

// edits is how many letters are missing, added, wrong or swapped with the next one in one of the words, at most most.
func edits(a, b string, most int) int {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	if a == "" || b == "" || most == 0 {
		return min(len(a)+len(b), most)
	}
	fewest := min(edits(a[1:], b, most-1), edits(a, b[1:], most-1), edits(a[1:], b[1:], most-1))
	if len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] {
		fewest = min(fewest, edits(a[2:], b[2:], most-1))
	}
	return fewest + 1
}
