package docs

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// release is a server of a release beside the one that most tests use.
type release struct {
	server  string
	version string
	order   int
}

// usage are the tests that run on a release, by package.
type usage map[release]map[string][]string

// The table of servers is what the tests start.
func TestServerTable(t *testing.T) {
	const page = "docs/databases.md"
	have := read(t, page)
	want := between(t, have, "servers", serverTable(used(t)))
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

func serverTable(found usage) string {
	var text strings.Builder
	text.WriteString("| server | tests |\n|---|---|\n")
	byOrder := func(a, b release) int { return cmp.Or(cmp.Compare(a.server, b.server), cmp.Compare(a.order, b.order)) }
	for _, r := range slices.SortedFunc(maps.Keys(found), byOrder) {
		var packages []string
		for _, pkg := range slices.Sorted(maps.Keys(found[r])) {
			tests := found[r][pkg]
			if slices.Contains(tests, "TestMain") {
				packages = append(packages, "all of `"+pkg+"`")
				continue
			}
			slices.Sort(tests)
			packages = append(packages, "`"+pkg+"`: `"+strings.Join(tests, "`, `")+"`")
		}
		fmt.Fprintf(&text, "| %s %s | %s |\n", r.server, r.version, strings.Join(packages, "; "))
	}
	return text.String()
}

// function is one of a package of tests: what it names, and the releases that it starts.
type function struct {
	names    map[string]bool
	releases []release
}

// used reads the tests' source.
func used(t *testing.T) usage {
	t.Helper()
	packages := map[string]map[string]*function{}
	for _, dir := range []string{"internal", "test"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			pkg, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			if packages[filepath.ToSlash(pkg)] == nil {
				packages[filepath.ToSlash(pkg)] = map[string]*function{}
			}
			return functions(t, path, packages[filepath.ToSlash(pkg)])
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	found := usage{}
	for pkg, all := range packages {
		for name := range all {
			if !strings.HasPrefix(name, "Test") {
				continue
			}
			for r := range reached(all, name, map[string]bool{}) {
				if found[r] == nil {
					found[r] = map[string][]string{}
				}
				found[r][pkg] = append(found[r][pkg], name)
			}
		}
	}
	return found
}

// functions adds those of a file.
func functions(t *testing.T, path string, all map[string]*function) error {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		return err
	}
	for _, decl := range file.Decls {
		declared, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := declared.Name.Name
		if all[name] == nil { // methods of one name count as one
			all[name] = &function{names: map[string]bool{}}
		}
		ast.Inspect(declared, func(n ast.Node) bool {
			if ident, ok := n.(*ast.Ident); ok {
				all[name].names[ident.Name] = true
			}
			all[name].releases = append(all[name].releases, releasesIn(t, path, n)...)
			return true
		})
	}
	return nil
}

// reached returns the releases that a function starts, itself or through others.
func reached(all map[string]*function, name string, seen map[string]bool) map[release]bool {
	releases := map[release]bool{}
	if f := all[name]; f != nil && !seen[name] {
		seen[name] = true
		for _, r := range f.releases {
			releases[r] = true
		}
		for called := range f.names {
			maps.Copy(releases, reached(all, called, seen))
		}
	}
	return releases
}

// releasesIn returns what a piece of a test says: versions of PostgreSQL are numbers in its options, those of a loop over a variable
// named version, or the last argument of newPair; releases of MariaDB and kinds of PgBouncer have names.
func releasesIn(t *testing.T, path string, n ast.Node) (list []release) {
	t.Helper()
	switch n := n.(type) {
	case *ast.SelectorExpr:
		switch name := ofTestenv(n); {
		case strings.HasPrefix(name, "MariaDB") && name != "MariaDBFlavor":
			digits := strings.TrimPrefix(name, "MariaDB")
			version, err := strconv.Atoi(digits)
			if err != nil {
				t.Fatalf("%s: release %s has no number", path, name)
			}
			list = append(list, release{"MariaDB", digits[:2] + "." + digits[2:], version})
		case name == "PgBouncer":
			list = append(list, release{"PgBouncer", "1.18", 18})
		case name == "NewPgBouncer":
			list = append(list, release{"PgBouncer", "1.26", 26})
		}
	case *ast.CompositeLit:
		if sel, ok := n.Type.(*ast.SelectorExpr); ok && ofTestenv(sel) == "PostgresOptions" {
			for _, field := range n.Elts {
				if kv, ok := field.(*ast.KeyValueExpr); ok && named(kv.Key, "Version") {
					list = append(list, versions(kv.Value)...)
					if sel, ok := kv.Value.(*ast.SelectorExpr); len(list) == 0 && !named(kv.Value, "version") && (!ok || ofTestenv(sel) != "AnyPostgres") {
						t.Errorf("%s: name the version of PostgreSQL by a number, or by a variable named version in a loop", path)
					}
				}
			}
		}
	case *ast.CallExpr:
		if named(n.Fun, "newPair") {
			list = versions(n.Args[len(n.Args)-1])
		}
	case *ast.RangeStmt:
		if lit, ok := n.X.(*ast.CompositeLit); ok {
			for _, e := range lit.Elts {
				kv, keyed := e.(*ast.KeyValueExpr)
				switch {
				case keyed && named(n.Key, "version"):
					list = append(list, versions(kv.Key)...)
				case !keyed && named(n.Value, "version"):
					list = append(list, versions(e)...)
				}
			}
		}
	case *ast.ForStmt:
		begin, ok := n.Init.(*ast.AssignStmt)
		end, limited := n.Cond.(*ast.BinaryExpr)
		if !ok || !limited || end.Op != token.LEQ || !named(begin.Lhs[0], "version") {
			break
		}
		from, to := versions(begin.Rhs[0]), versions(end.Y)
		for v := from[0].order; v <= to[0].order; v++ {
			list = append(list, postgres(v))
		}
	}
	return list
}

func ofTestenv(sel *ast.SelectorExpr) string {
	if named(sel.X, "testenv") {
		return sel.Sel.Name
	}
	return ""
}

func named(e ast.Expr, name string) bool {
	ident, ok := e.(*ast.Ident)
	return ok && ident.Name == name
}

// versions returns the version of PostgreSQL that a number is; none if it is no number.
func versions(e ast.Expr) []release {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.INT {
		return nil
	}
	v, err := strconv.Atoi(lit.Value)
	if err != nil {
		return nil
	}
	return []release{postgres(v)}
}

func postgres(version int) release { return release{"PostgreSQL", strconv.Itoa(version), version} }
