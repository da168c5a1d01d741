package relay

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// The package comment lists exactly the goroutines that attempt.run starts.
func TestDocumentedGoroutines(t *testing.T) {
	documented := names(t, "doc.go", `(?m)^//   - (\w+) `)
	started := names(t, "attempt.go", `(?:running|tailing)\.Go\(func\(\) \{ a\.(\w+)\(`)
	if len(started) == 0 || !slices.Equal(documented, started) {
		t.Errorf("doc.go lists %q, run starts %q", documented, started)
	}
}

// names returns the first group of each match in a file, sorted.
func names(t *testing.T, file, pattern string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, match := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
		found = append(found, string(match[1]))
	}
	slices.Sort(found)
	return found
}
