package fixes

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Followed is a move of a fix that a test follows.
type Followed struct {
	Fix, Move string
	// Test is its name, File where it is.
	Test, File string
}

// directive begins a declaration.
const directive = "//follows:"

// Declared reads the declarations in the tests of directories.
func Declared(root string, dirs ...string) ([]Followed, error) {
	var all []Followed
	for _, dir := range dirs {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			found, err := declaredIn(root, path)
			all = append(all, found...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func declaredIn(root, path string) ([]Followed, error) {
	name, err := filepath.Rel(root, path)
	if err != nil {
		return nil, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []Followed
	for _, group := range file.Comments {
		for _, line := range group.List {
			text, declares := strings.CutPrefix(line.Text, directive)
			if !declares {
				continue
			}
			test := around(file, line)
			fix, moves, _ := strings.Cut(text, " ")
			if test == "" || moves == "" {
				return nil, fmt.Errorf("%s: %q is neither in a test nor in its comment, or names no move", name, line.Text)
			}
			for move := range strings.SplitSeq(moves, ",") {
				found = append(found, Followed{Fix: fix, Move: strings.TrimSpace(move), Test: test, File: name})
			}
		}
	}
	return found, nil
}

// around is the name of the test to which a comment belongs.
func around(file *ast.File, c *ast.Comment) string {
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || !strings.HasPrefix(fn.Name.Name, "Test") {
			continue
		}
		from := fn.Pos()
		if fn.Doc != nil {
			from = fn.Doc.Pos()
		}
		if from <= c.Pos() && c.End() <= fn.End() {
			return fn.Name.Name
		}
	}
	return ""
}

// has reports whether a name is one of the fix's.
func (f *Fix) has(name string) bool { return f.Name == name || slices.Contains(f.Also, name) }

// Missing lists the moves that no test follows and that are not exempt, and what is declared or exempt and does not exist.
func Missing(printed []Fix, followed []Followed) []string {
	var missing []string
	for i := range printed {
		f := &printed[i]
		for _, move := range f.Moves {
			tested := slices.ContainsFunc(followed, func(d Followed) bool { return f.has(d.Fix) && d.Move == move })
			if !tested && f.exempt(move) == "" {
				missing = append(missing, fmt.Sprintf("%s:%d: no test follows the fix %q (%s): write one that takes it from what the relay prints "+
					"(cdctest.Printed), does it, and counts, and declare it there: %s%s %s", f.File, f.Line, short(f.Text), move, directive, f.Name, move))
			}
		}
	}
	exists := func(fix, move string) bool {
		return slices.ContainsFunc(printed, func(f Fix) bool { return f.has(fix) && slices.Contains(f.Moves, move) })
	}
	for _, d := range followed {
		if !exists(d.Fix, d.Move) {
			missing = append(missing, fmt.Sprintf("%s: %s declares %s%s %s, and no fix of the product has this name and move%s",
				d.File, d.Test, directive, d.Fix, d.Move, candidates(printed, d)))
		}
	}
	for _, e := range exemptions() {
		if !slices.ContainsFunc(printed, func(f Fix) bool { return slices.ContainsFunc(f.Moves, func(m string) bool { return f.matches(e, m) }) }) {
			missing = append(missing, fmt.Sprintf("the exemption of %s, %s, is for no fix any more: remove it", e.fix, e.move))
		}
		if i := slices.IndexFunc(followed, func(d Followed) bool {
			return slices.ContainsFunc(printed, func(f Fix) bool { return f.has(d.Fix) && f.matches(e, d.Move) && slices.Contains(f.Moves, d.Move) })
		}); i >= 0 {
			missing = append(missing, fmt.Sprintf("the exemption of %s, %s, is for a fix that %s follows: remove it", e.fix, e.move, followed[i].Test))
		}
	}
	return missing
}

// candidates are the names of fixes that may be meant.
func candidates(printed []Fix, d Followed) string {
	pkg, of := regexp.MustCompile(`^\w*\.`).FindString(d.Fix), reason(d.Fix)
	var names []string
	for i := range printed {
		f := &printed[i]
		if strings.HasPrefix(f.Name, pkg) && slices.Contains(f.Moves, d.Move) && (of == "" || reason(f.Name) == of) {
			names = append(names, f.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; is it one of " + strings.Join(names, ", ") + "?"
}

// short is a text on one line, and not too long.
func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > 300 {
		return string(runes[:300]) + unknown
	}
	return text
}
