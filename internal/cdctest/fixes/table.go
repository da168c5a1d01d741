package fixes

import (
	"fmt"
	"slices"
	"strings"
)

// Table is the list in docs/maintainers/fixes.md.
func Table(printed []Fix, followed []Followed) string {
	var b strings.Builder
	b.WriteString("| fix | file | moves | followed by |\n|---|---|---|---|\n")
	for i := range printed {
		f := &printed[i]
		for _, move := range f.Moves {
			var tests []string
			for _, d := range followed {
				if test := "`" + d.Test + "`"; f.has(d.Fix) && d.Move == move && !slices.Contains(tests, test) {
					tests = append(tests, test)
				}
			}
			by := strings.Join(tests, ", ")
			if len(tests) == 0 {
				by = "no test: " + f.exempt(move)
			}
			text := "`` " + strings.ReplaceAll(short(f.Text), "|", `\|`) + " ``"
			if move != f.Moves[0] {
				text = "″"
			}
			fmt.Fprintf(&b, "| **%s**: %s | %s | %s | %s |\n", f.Name, text, f.File, move, by)
		}
	}
	return b.String()
}
