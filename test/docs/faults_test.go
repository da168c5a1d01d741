package docs

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdctest/coverage"
)

//go:generate go test -run "^TestFaultTable$" -update .

var update = flag.Bool("update", false, "write the table of the faults")

func declared(t *testing.T) []coverage.Declaration {
	t.Helper()
	all, err := coverage.Declared(root, "test/faults", "test/wal", "test/binlog", "test/commands", "test/publisher",
		"internal/binlog", "internal/checkpoint", "internal/router")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The table of the faults is what the tests declare.
func TestFaultTable(t *testing.T) {
	const page = "test/docs/faults.md"
	have := read(t, page)
	want := between(t, have, "kinds", coverage.Kinds())
	want = between(t, want, "faults", coverage.Table(declared(t)))
	if *update {
		if err := os.WriteFile(filepath.Join(root, page), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have != want {
		t.Errorf("%s is not current: run go generate ./test/docs", page)
	}
}

// between replaces what is between the marks of a name.
func between(t *testing.T, text, name, by string) string {
	t.Helper()
	from, to := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
	before, rest, ok := strings.Cut(text, from)
	_, after, closed := strings.Cut(rest, to)
	if !ok || !closed {
		t.Fatalf("the page lacks %s", from)
	}
	return before + from + by + to + after
}

// Every row of the fault matrix has a test on each database and in each mode to which it applies.
func TestEveryFaultHasATest(t *testing.T) {
	for _, missing := range coverage.Missing(declared(t)) {
		t.Error(missing)
	}
}

// Every test of the fault suite declares what it covers.
func TestEveryTestOfTheSuiteDeclares(t *testing.T) {
	names := map[string]bool{"TestMain": true}
	for _, d := range declared(t) {
		names[d.Test] = true
	}
	for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(sources(t, "test/faults", true), -1) {
		if !names[m[1]] {
			t.Errorf("%s of test/faults does not declare what it covers: add //covers:all 1 events, or what fits, to its comment", m[1])
		}
	}
}
