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

//go:generate go test -run "^Test(FaultTable|MetricsPage|AlertHeads)$" -update .

var update = flag.Bool("update", false, "write what is generated of the pages")

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
	want := between(t, read(t, page), "kinds", coverage.Kinds())
	current(t, page, between(t, want, "faults", coverage.Table(declared(t))))
}

// current compares a page with what it should be, or writes it under -update.
func current(t *testing.T, page, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(filepath.Join(root, page), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if read(t, page) != want {
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
