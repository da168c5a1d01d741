package docs

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// budget is what product and tests may have, and words each page. A commit that raises a number says why; one that takes something away
// lowers it.
var budget = map[string]int{
	"lines of the product": 42_120, // cmd and internal, without tests and what is only for them
	"packages":             28,     // of the product
	"lines of tests":       65_620, // with testenv, cdctest and the other helpers
}

var words = map[string]int{
	"README.md": 750, "CONTRIBUTING.md": 700, "SECURITY.md": 400, "CHANGELOG.md": 1500, // of the changelog what is not released

	"docs/quickstart.md": 600, "docs/tutorial.md": 950, "docs/install.md": 850, "docs/postgresql.md": 1300, "docs/mysql.md": 1950,
	"docs/managed-databases.md": 850, "docs/kafka.md": 550, "docs/security.md": 1100, "docs/routing.md": 1100, "docs/migrate-debezium.md": 650,
	"docs/migrate-from-polling.md": 1100, "docs/go.md": 685, "docs/other-languages.md": 1000, "docs/consumer.md": 1625, "docs/idempotency.md": 675,
	"docs/checklist.md": 860, "docs/monitoring.md": 800, "docs/alerts.md": 1100, "docs/retention.md": 735, "docs/dead-letters.md": 650,
	"docs/recovery.md": 1760, "docs/replay.md": 350, "docs/upgrade.md": 460, "docs/troubleshooting.md": 1200, "docs/configuration.md": 3600,
	"docs/commands.md": 1400, "docs/metrics.md": 900, "docs/records.md": 450, "docs/how-it-works.md": 1100, "docs/guarantees.md": 1200,
	"docs/exactly-once.md": 650, "docs/threat-model.md": 800, "docs/comparison.md": 800, "docs/performance.md": 740, "docs/faq.md": 400,

	"docs/maintainers/structure.md": 1040, "docs/maintainers/positions.md": 850, "docs/maintainers/repair.md": 900,
	"docs/maintainers/dead-letters.md": 1300, "docs/maintainers/mapping.md": 600, "docs/maintainers/visibility.md": 650,
	"docs/maintainers/kafka-transactions.md": 450, "docs/maintainers/performance.md": 800, "docs/maintainers/dependencies.md": 200,
	"docs/maintainers/testing.md": 460, "docs/maintainers/page.md": 220, "docs/maintainers/releasing.md": 250,
}

var (
	ofTests   = regexp.MustCompile(`_test\.go$|^(internal/testenv|internal/cdctest|test)/.*\.go$`)
	ofProduct = regexp.MustCompile(`^(cmd|internal)/.*\.go$`)
)

// Each page has a number of words that it may have, and so have those of users and those of maintainers together. What tests write beside
// themselves is no page.
func TestWords(t *testing.T) {
	all := pages(t)
	_, unreleased, _ := strings.Cut(all["CHANGELOG.md"], "\n## Unreleased\n")
	all["CHANGELOG.md"], _, _ = strings.Cut(unreleased, "\n## ")
	total := map[string]int{}
	for page, text := range all {
		n := len(strings.Fields(text))
		total[filepath.Dir(page)] += n
		if n > words[page] && !strings.HasPrefix(page, "test/") {
			t.Errorf("%s: %d words, the budget is %d: take something away, or raise it in test/docs/budget_test.go and say why", page, n, words[page])
		}
	}
	for dir, limit := range map[string]int{"docs": 32_800, "docs/maintainers": 8_000} {
		if total[dir] > limit || total[dir] == 0 {
			t.Errorf("%s: %d words on all pages, the budget is %d: take something away", dir, total[dir], limit)
		}
	}
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
		var lines string
		switch {
		case ofTests.MatchString(path):
			lines = "lines of tests"
		case ofProduct.MatchString(path):
			lines = "lines of the product"
			packages[filepath.Dir(path)] = true
		default:
			return nil
		}
		content, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return err
		}
		spent[lines] += codeLines(content)
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
