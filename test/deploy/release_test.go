package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The tags of the other modules stand on the same commits, as docs/maintainers/releasing.md puts them there.
const tagScript = `set -e
unset $(git rev-parse --local-env-vars) VERSION MAKEFLAGS # a git hook's, or of the make that runs this
makefile=$PWD/../../Makefile; cd "$1"; git init --quiet
step() {
	git -c commit.gpgsign=false -c user.name=a -c user.email=a@b commit --quiet --allow-empty --message step
	for tag; do git tag $tag; done
	make -f "$makefile" --dry-run build release | grep -o "version=[^']*\|_TAG=[^ ]*"
}
step writer/v0.1.0; step inbox/v0.1.0; step writer/pgxwriter/v0.1.0 writer/gormwriter/v0.1.0 inbox/kgoinbox/v0.1.0 v0.1.0; step writer/v0.2.0`

func TestReleaseHasTheTagOfTheRootModule(t *testing.T) {
	t.Parallel()
	want := regexp.MustCompile(`^(version=[0-9a-f]+\n_TAG=v0\.0\.0\n){2}version=v0\.1\.0\n_TAG=v0\.1\.0\nversion=v0\.1\.0-1-g[0-9a-f]+\n_TAG=v0\.1\.0\n$`)
	if have := output(t, exec.CommandContext(t.Context(), "sh", "-c", tagScript, "sh", t.TempDir())); !want.MatchString(have) {
		t.Errorf("the steps of a release have\n%swant %s", have, want)
	}
}

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
