package docs

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/licensecheck"
)

const dependenciesPage = "test/docs/dependencies.md"

// goTool runs the go command on the root module alone, as a user who installs it does.
func goTool(t *testing.T, goos string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOOS="+goos)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	return out
}

const self = "github.com/cdc-relay/cdc-relay"

// linkedModules returns the directories of the modules in the released binaries by their paths, without this one, and which it imports.
func linkedModules(t *testing.T) (dirs map[string]string, imported map[string]bool) {
	t.Helper()
	dirs, imported = map[string]string{}, map[string]bool{}
	for _, goos := range []string{"linux", "darwin"} {
		out := goTool(t, goos, "list", "-deps", "-f", `{{with .Module}}{{.Path}} {{.Dir}} {{end}}{{.ImportPath}} {{join .Imports " "}}`, "./cmd/cdc-relay")
		home, imports := map[string]string{}, []string(nil)
		for line := range strings.Lines(string(out)) {
			f := strings.Fields(line)
			if len(f) < 3 || !filepath.IsAbs(f[1]) {
				continue // of the standard library
			}
			if home[f[2]] = f[0]; f[0] == self {
				imports = append(imports, f[3:]...)
			} else {
				dirs[f[0]] = f[1]
			}
		}
		for _, path := range imports {
			imported[home[path]] = true
		}
	}
	return dirs, imported
}

// licence names the licences of a module's files.
func licence(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, path := range files {
		if !regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying)`).MatchString(filepath.Base(path)) {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range licensecheck.Scan(text).Match {
			if !m.IsURL {
				found[m.ID] = true
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), " AND ")
}

// direct returns the modules that go.mod requires for itself.
func direct(t *testing.T) (paths []string) {
	t.Helper()
	var file struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(goTool(t, "linux", "mod", "edit", "-json"), &file); err != nil {
		t.Fatal(err)
	}
	for _, r := range file.Require {
		if !r.Indirect {
			paths = append(paths, r.Path)
		}
	}
	return paths
}

// table returns the cells of the rows below a heading, by the first one.
func table(text, heading string) map[string][]string {
	_, text, _ = strings.Cut(text, "\n## "+heading+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	rows := map[string][]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (.*) \\|$").FindAllStringSubmatch(text, -1) {
		rows[m[1]] = strings.Split(m[2], " | ")
	}
	return rows
}

// The page has the modules that this one imports, with the licence of each and a reason, and those that only tests need. Every module that is
// linked has a licence that may be.
func TestDependencies(t *testing.T) {
	t.Parallel()
	page := read(t, dependenciesPage)
	dirs, imported := linkedModules(t)
	rows, tests := table(page, "Linked directly"), table(page, "Only tests")
	_, allowed, _ := strings.Cut(page, "that may be linked: ")
	allowed, _, _ = strings.Cut(allowed, " (")
	for path, dir := range dirs {
		is := licence(t, dir)
		for one := range strings.SplitSeq(is, " AND ") {
			if !slices.Contains(strings.Split(allowed, ", "), one) {
				t.Errorf("%s has the licence %q, which may not be linked", path, one)
			}
		}
		if row := rows[path]; imported[path] && (len(row) != 2 || row[0] != is || row[1] == "") {
			t.Errorf("%s: %s has the row %q, want the licence %q and a reason", dependenciesPage, path, row, is)
		}
	}
	for _, path := range direct(t) {
		if !imported[path] && len(tests[path]) != 1 {
			t.Errorf("%s does not say why go.mod requires %s, which only tests use", dependenciesPage, path)
		}
		if !imported[path] {
			delete(tests, path)
		}
	}
	maps.DeleteFunc(rows, func(path string, _ []string) bool { return imported[path] })
	for _, left := range []map[string][]string{rows, tests} {
		for path := range left {
			t.Errorf("%s has a row too many: %s", dependenciesPage, path)
		}
	}
}
