package docs

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// budget is what product, tests and docs may have. Whoever raises a number says in the commit why; a change that takes something away lowers
// it.
var budget = map[string]int{
	"lines of the product": 43_100, // cmd and internal, without tests and what is only for them
	"packages":             28,     // of the product
	"lines of tests":       69_450, // with testenv, cdctest and the other helpers
	"words of docs":        80_150, // docs and README.md
}

func TestBudget(t *testing.T) {
	spent, packages := map[string]int{}, map[string]bool{}
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		within := func(dirs ...string) bool {
			for _, dir := range dirs {
				if strings.HasPrefix(path, dir) {
					return true
				}
			}
			return false
		}
		lines, words := "", 0
		switch {
		case strings.HasSuffix(path, "_test.go"), strings.HasSuffix(path, ".go") && within("internal/testenv/", "internal/cdctest/", "test/"):
			lines = "lines of tests"
		case strings.HasSuffix(path, ".go") && within("cmd/", "internal/"):
			lines = "lines of the product"
			packages[filepath.Dir(path)] = true
		case strings.HasSuffix(path, ".md") && within("docs/"), path == "README.md":
			words = 1
		default:
			return nil
		}
		content, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return err
		}
		spent["words of docs"] += words * len(bytes.Fields(content))
		if lines != "" {
			spent[lines] += codeLines(content)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	spent["packages"] = len(packages)
	for name, limit := range budget {
		t.Logf("%s: %d of %d", name, spent[name], limit)
		if spent[name] > limit {
			t.Errorf("%s: %d, the budget is %d: take something away, or raise the budget in test/docs/budget_test.go and say why", name, spent[name], limit)
		}
	}
}

// codeLines counts the lines that are neither blank nor only a comment.
func codeLines(content []byte) int {
	n := 0
	for line := range bytes.Lines(content) {
		if line = bytes.TrimSpace(line); len(line) > 0 && !bytes.HasPrefix(line, []byte("//")) {
			n++
		}
	}
	return n
}
