package config

import "strings"

// closest returns the candidate that is most similar to word, or "". It ignores case, dashes and underscores.
func closest(word string, candidates []string) string {
	best, bestDistance := "", 3
	for _, c := range candidates {
		a, b := fold(word), fold(c)
		d := distance(a, b)
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

// distance is the Damerau-Levenshtein distance with adjacent transpositions (optimal string alignment).
func distance(a, b string) int {
	var before []int // the row before the last
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
