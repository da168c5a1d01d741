package coverage

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Declaration is what one test covers.
type Declaration struct {
	// Dir is the test's package, from the root of the repository, Test its name, Shows its comment.
	Dir, Test, Shows string
	Rows             []int
	Databases        []string
	Modes            []string
	// Counts are kinds.
	Counts []string
}

// directive begins a declaration.
const directive = "//covers:"

// Declared reads the declarations in the tests of directories.
func Declared(root string, dirs ...string) ([]Declaration, error) {
	var all []Declaration
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			found, err := declaredIn(file)
			if err != nil {
				return nil, err
			}
			for i := range found {
				found[i].Dir = dir
			}
			all = append(all, found...)
		}
	}
	return all, nil
}

func declaredIn(file string) ([]Declaration, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []Declaration
	for _, decl := range parsed.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		for _, text := range directives(fn) {
			d := Declaration{Test: fn.Name.Name, Shows: shows(fn)}
			if err := d.parse(text); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", file, d.Test, err)
			}
			found = append(found, d)
		}
	}
	return found, nil
}

func directives(fn *ast.FuncDecl) []string {
	var found []string
	if fn.Doc == nil {
		return nil
	}
	for _, line := range fn.Doc.List {
		if text, declares := strings.CutPrefix(line.Text, directive); declares {
			found = append(found, text)
		}
	}
	return found
}

// shows is the test's comment in one line, without its name.
func shows(fn *ast.FuncDecl) string {
	text := strings.Join(strings.Fields(fn.Doc.Text()), " ")
	return capital(strings.TrimPrefix(text, fn.Name.Name+": "))
}

func (d *Declaration) parse(text string) error {
	words := strings.Fields(text)
	if !strings.HasPrefix(d.Test, "Test") {
		return fmt.Errorf("%s is no test", d.Test)
	}
	if len(words) == 0 || on(words[0]) == nil {
		return fmt.Errorf("%q names no databases: use all, binlogs, postgres, mysql or mariadb", text)
	}
	d.Databases, d.Modes = on(words[0]), []string{AtLeastOnce}
	for _, word := range words[1:] {
		n, err := strconv.Atoi(word)
		switch {
		case err == nil && slices.ContainsFunc(matrix(), func(r row) bool { return r.number == n }):
			d.Rows = append(d.Rows, n)
		case kinds()[word] != "":
			d.Counts = append(d.Counts, word)
		case word == ExactlyOnce:
			d.Modes = []string{ExactlyOnce}
		case word == "both":
			d.Modes = []string{AtLeastOnce, ExactlyOnce}
		default:
			return fmt.Errorf("%q is neither a row nor what a test counts", word)
		}
	}
	if len(d.Rows) == 0 || len(d.Counts) == 0 {
		return fmt.Errorf("%q lacks rows or what is counted", text)
	}
	return nil
}

// Missing lists the rows without a test, by database and mode.
func Missing(all []Declaration) []string {
	var missing []string
	for _, r := range matrix() {
		for _, database := range databases() {
			for _, mode := range modes() {
				covered := slices.ContainsFunc(all, func(d Declaration) bool {
					return slices.Contains(d.Rows, r.number) && slices.Contains(d.Databases, database) && slices.Contains(d.Modes, mode)
				})
				if !covered && r.applies(database, mode) {
					missing = append(missing, fmt.Sprintf("row %d (%s) has no test on %s, %s", r.number, r.fault, database, mode))
				}
			}
		}
	}
	return missing
}
