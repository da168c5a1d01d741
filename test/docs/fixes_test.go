package docs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdctest/fixes"
)

func fixesAndTests(t *testing.T) ([]fixes.Fix, []fixes.Followed) {
	t.Helper()
	printed, err := fixes.Printed(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(printed) < 100 {
		t.Fatalf("only %d fixes were found", len(printed))
	}
	followed, err := fixes.Declared(root, "internal", "cmd", "test")
	if err != nil {
		t.Fatal(err)
	}
	return printed, followed
}

// Every fix that the product prints and that moves a position, a slot, a checkpoint, a partition or a letter is followed by a test.
func TestEveryFixIsFollowed(t *testing.T) {
	for _, missing := range fixes.Missing(fixesAndTests(t)) {
		t.Error(missing)
	}
}

// The list of the fixes is what the code prints and the tests declare.
func TestListOfFixes(t *testing.T) {
	const page = "docs/maintainers/fixes.md"
	have := read(t, page)
	want := between(t, have, "fixes", fixes.Table(fixesAndTests(t)))
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
