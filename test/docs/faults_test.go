package docs

import (
	"regexp"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdctest/coverage"
)

func declared(t *testing.T) []coverage.Declaration {
	t.Helper()
	all, err := coverage.Declared(root, "test/faults", "test/wal", "test/binlog", "test/commands", "test/publisher",
		"internal/binlog", "internal/checkpoint", "internal/relay", "internal/router")
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

// Every row of the fault matrix has a test on each database and in each mode to which it applies.
func TestEveryFaultHasATest(t *testing.T) {
	for _, missing := range coverage.Missing(declared(t)) {
		t.Error(missing)
	}
}

// Every test of the fault suite declares what it covers.
func TestEveryTestOfTheSuiteDeclares(t *testing.T) {
	names := map[string]bool{"TestMain": true, "TestUpgrade": true} // make upgrade runs that, not the suite
	for _, d := range declared(t) {
		names[d.Test] = true
	}
	for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(sources(t, "test/faults", true), -1) {
		if !names[m[1]] {
			t.Errorf("%s of test/faults does not declare what it covers: add //covers:all 1 events, or what fits, to its comment", m[1])
		}
	}
}
