package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var sourceFile = regexp.MustCompile(`\{src: ([^,}]+)`)

// make release-snapshot packs a release, but takes minutes: this test finds what a move of files breaks.
func TestReleaseNamesFilesThatExist(t *testing.T) {
	t.Parallel()
	named := 0
	for _, m := range sourceFile.FindAllStringSubmatch(read(t, filepath.Join(root, ".goreleaser.yaml")), -1) {
		if strings.HasPrefix(m[1], "bin/") { // made by make release-files
			continue
		}
		named++
		if found, err := filepath.Glob(filepath.Join(root, m[1])); err != nil || len(found) == 0 {
			t.Errorf("%s does not exist: %v", m[1], err)
		}
	}
	if named < 5 {
		t.Errorf("only %d files were found", named)
	}
	chart, err := os.ReadFile(chart + "/Chart.yaml")
	if err != nil || !strings.Contains(read(t, filepath.Join(root, "CHANGELOG.md")), "\n## "+regexp.MustCompile(`appVersion: (\S+)`).FindStringSubmatch(string(chart))[1]+" ") {
		t.Errorf("CHANGELOG.md has no section for the chart's appVersion: %v", err)
	}
}
