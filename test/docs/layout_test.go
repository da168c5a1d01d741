package docs

import (
	"bytes"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	layoutRow   = regexp.MustCompile("(?m)^\\| (`(?:internal|cmd)/.*?) \\| .+ \\|$")
	depguardFor = regexp.MustCompile(`"\*\*/((?:internal/[a-z/]+|cmd))/\*`)
)

const layoutPage = "docs/maintainers/structure.md"

// Each package under internal and cmd is in the table of layoutPage, has a comment that says what it is for, and has a rule of depguard,
// which lists what it may import. The table has no other.
func TestEachPackageHasItsPlace(t *testing.T) {
	var layout, rules []string
	for _, row := range layoutRow.FindAllStringSubmatch(read(t, layoutPage), -1) {
		for _, name := range span.FindAllStringSubmatch(row[1], -1) {
			layout = append(layout, name[1])
		}
	}
	for _, m := range depguardFor.FindAllStringSubmatch(read(t, ".golangci.yml"), -1) {
		rules = append(rules, m[1])
	}
	list := exec.Command("go", "list", "-f", "{{.ImportPath}} {{.Doc}}", "./internal/...", "./cmd/...")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/cdc-relay/cdc-relay/"
	var packages []string
	for line := range bytes.Lines(out) {
		name, doc, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(string(line), module)), " ")
		packages = append(packages, name)
		inside := func(dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }
		if !slices.ContainsFunc(layout, inside) {
			t.Errorf("%s is not in %s", name, layoutPage)
		}
		if !slices.ContainsFunc(rules, inside) {
			t.Errorf("%s has no rule of depguard", name)
		}
		if doc == "" {
			t.Errorf("%s has no package comment", name)
		}
	}
	for _, name := range layout {
		if !slices.Contains(packages, name) {
			t.Errorf("%s has %s, which does not exist", layoutPage, name)
		}
	}
}
