package docs

import (
	"encoding/json"
	"fmt"
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

const dependenciesPage = "docs/maintainers/dependencies.md"

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

// module is a module of which a package is linked.
type module struct {
	dir       string
	importers map[string]bool
}

// linkedModules returns the modules in the released binaries by their paths, without this one.
func linkedModules(t *testing.T) map[string]*module {
	t.Helper()
	all := map[string]*module{}
	for _, goos := range []string{"linux", "darwin"} {
		out := goTool(t, goos, "list", "-deps", "-f", `{{with .Module}}{{.Path}} {{.Dir}}{{else}}- -{{end}} {{.ImportPath}} {{join .Imports " "}}`, "./cmd/cdc-relay")
		home, imports := map[string]string{}, map[string][]string{}
		for line := range strings.Lines(string(out)) {
			f := strings.Fields(line)
			home[f[2]], imports[f[2]] = f[0], f[3:]
			if f[0] != "-" && f[0] != "github.com/cdc-relay/cdc-relay" && all[f[0]] == nil {
				all[f[0]] = &module{f[1], map[string]bool{}}
			}
		}
		for from, list := range imports {
			for _, to := range list {
				if m := all[home[to]]; m != nil && home[from] != home[to] {
					m.importers[home[from]] = true
				}
			}
		}
	}
	return all
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

// The page has the modules that are linked, with the licence of each, and those that only tests need.
func TestDependencies(t *testing.T) {
	t.Parallel()
	linked, page, required := linkedModules(t), read(t, dependenciesPage), direct(t)
	if *update {
		page = withIndirect(t, page, linked, required)
	}
	rows := map[bool]map[string][]string{true: table(page, "Linked directly"), false: table(page, "Linked through them")}
	_, allowed, _ := strings.Cut(page, "that may be linked: ")
	allowed, _, _ = strings.Cut(allowed, " (")
	for path, m := range linked {
		is := licence(t, m.dir)
		for one := range strings.SplitSeq(is, " AND ") {
			if !slices.Contains(strings.Split(allowed, ", "), one) {
				t.Errorf("%s has the licence %q, which may not be linked", path, one)
			}
		}
		used := slices.Contains(required, path) && m.importers["github.com/cdc-relay/cdc-relay"]
		if row := rows[used][path]; len(row) != 2 || row[0] != is || row[1] == "" {
			t.Errorf("%s: %s has the row %q, want the licence %q and a reason", dependenciesPage, path, row, is)
		}
		delete(rows[used], path)
	}
	tests := table(page, "Only tests")
	for _, path := range required {
		if m := linked[path]; m != nil && m.importers["github.com/cdc-relay/cdc-relay"] {
			continue
		}
		if len(tests[path]) != 1 {
			t.Errorf("%s does not say why go.mod requires %s, which only tests use", dependenciesPage, path)
		}
		delete(tests, path)
	}
	for _, left := range []map[string][]string{rows[true], rows[false], tests} {
		for path := range left {
			t.Errorf("%s has a row too many: %s", dependenciesPage, path)
		}
	}
}

// withIndirect writes the table of modules that others bring.
func withIndirect(t *testing.T, page string, linked map[string]*module, required []string) string {
	t.Helper()
	var rows strings.Builder
	for _, path := range slices.Sorted(maps.Keys(linked)) {
		m := linked[path]
		if slices.Contains(required, path) && m.importers["github.com/cdc-relay/cdc-relay"] {
			continue
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", path, licence(t, m.dir), "`"+strings.Join(slices.Sorted(maps.Keys(m.importers)), "`, `")+"`")
	}
	const head = "| module | licence | imported by |\n|---|---|---|\n"
	before, after, _ := strings.Cut(page, head)
	_, after, _ = strings.Cut(after, "\n## ")
	page = before + head + rows.String() + "\n## " + after
	if err := os.WriteFile(filepath.Join(root, dependenciesPage), []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	return page
}
