package docs

import (
	"regexp"
	"strings"
	"testing"
)

// Every message that the page on troubleshooting quotes is in the code. Names and figures are left out of a quotation as "…".
func TestQuotedMessagesExist(t *testing.T) {
	code := sources(t, "internal", false) + sources(t, "cmd", false)
	// A message may go on in the next literal, and have verbs of fmt where a quotation has "…".
	code = regexp.MustCompile(`"\s*\+\s*"`).ReplaceAllString(code, "")
	n := 0
	for row := range strings.Lines(read(t, "docs/troubleshooting.md")) {
		for _, m := range span.FindAllStringSubmatch(firstCell(row), -1) {
			for part := range strings.SplitSeq(m[1], "…") {
				n++
				if part = strings.TrimSpace(part); !strings.Contains(code, part) {
					t.Errorf("docs/troubleshooting.md quotes %q, of which %q is not in the code", m[1], part)
				}
			}
		}
	}
	if n < 40 {
		t.Errorf("only %d quotations were found", n)
	}
}

// firstCell returns the first cell of a table's row, "" for other lines.
func firstCell(line string) string {
	cell, _, isRow := strings.Cut(strings.TrimPrefix(line, "| "), " |")
	if !isRow || !strings.HasPrefix(line, "| ") {
		return ""
	}
	return cell
}

var (
	reference  = regexp.MustCompile(`\]\[([a-z0-9-]+)\]`)
	definition = regexp.MustCompile(`(?m)^\[([a-z0-9-]+)\]: (\S+)$`)
)

// Every source that a page cites has an address, once, and every address is cited.
func TestReferencesAreDefined(t *testing.T) {
	n := 0
	for name, text := range pages(t) {
		defined, cited := map[string]bool{}, map[string]bool{}
		for _, m := range definition.FindAllStringSubmatch(text, -1) {
			if defined[m[1]] || !strings.HasPrefix(m[2], "https://") {
				t.Errorf("%s: [%s] is defined twice, or as %s", name, m[1], m[2])
			}
			defined[m[1]] = true
			n++
		}
		for _, m := range reference.FindAllStringSubmatch(text, -1) {
			if cited[m[1]] = true; !defined[m[1]] {
				t.Errorf("%s cites [%s], which it does not define", name, m[1])
			}
		}
		for key := range defined {
			if !cited[key] {
				t.Errorf("%s defines [%s] and does not cite it", name, key)
			}
		}
	}
	if n < 40 {
		t.Errorf("only %d references were found", n)
	}
}
