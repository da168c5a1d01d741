package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// changed leaves of all parts the tests that changed since a commit: those whose lines changed, all tests of a file that changed
// elsewhere, and what has their names elsewhere. Tests of code that changed are not known here: name them with `go test -run`.
func changed(ctx context.Context, o options, all []part) ([]part, error) {
	diff, err := exec.CommandContext(ctx, "git", "diff", "--unified=0", "--no-color", "--no-ext-diff", o.base, "--", "*_test.go", ":!*/testdata/*").Output()
	if err != nil {
		return nil, fmt.Errorf("git diff %s: %w", o.base, err)
	}
	added, err := exec.CommandContext(ctx, "git", "ls-files", "--others", "--exclude-standard", "--", "*_test.go", ":!*/testdata/*").Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	lines, err := changedLines(diff)
	if err != nil {
		return nil, err
	}
	for file := range strings.FieldsSeq(string(added)) {
		lines[file] = []span{{1, 1}} // the package clause: all tests
	}
	var names, dirs [2][]string // of units, of test/
	for file, spans := range lines {
		tests, err := testsIn(file, spans)
		if err != nil {
			return nil, err
		}
		if i := suiteOf(file); len(tests) > 0 {
			names[i], dirs[i] = append(names[i], tests...), append(dirs[i], "./"+path.Dir(file))
		}
	}
	var some []part
	for i, p := range all {
		slices.Sort(names[i])
		slices.Sort(dirs[i])
		if len(dirs[i]) > 0 {
			p.flags = append(p.flags, "-run=^("+strings.Join(slices.Compact(names[i]), "|")+")$")
			some = append(some, part{flags: p.flags, packages: slices.Compact(dirs[i])})
		}
	}
	if len(some) == 0 {
		return nil, fmt.Errorf("%w since %s", errNothingChanged, o.base)
	}
	return some, nil
}

// suiteOf returns the part that the tests of a file belong to.
func suiteOf(file string) int {
	if strings.HasPrefix(file, "test/") {
		return 1
	}
	return 0
}

// span is a range of lines, both ends included.
type span struct{ from, to int }

var hunk = regexp.MustCompile(`^@@ -\S+ \+(\d+)(?:,(\d+))? @@`)

// changedLines returns the lines of each file that a diff without context added or changed; where it removed lines, those around.
func changedLines(diff []byte) (map[string][]span, error) {
	lines := map[string][]span{}
	file := ""
	scanner := bufio.NewScanner(bytes.NewReader(diff))
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		if name, ok := strings.CutPrefix(scanner.Text(), "+++ "); ok {
			file = strings.TrimPrefix(name, "b/") // /dev/null: the file is gone
			continue
		}
		m := hunk.FindStringSubmatch(scanner.Text())
		if m == nil || file == "/dev/null" {
			continue
		}
		from, err := strconv.Atoi(m[1])
		if err != nil {
			return nil, err
		}
		n := 1
		if m[2] != "" {
			if n, err = strconv.Atoi(m[2]); err != nil {
				return nil, err
			}
		}
		if n == 0 { // lines behind from are gone
			n = 2
		}
		lines[file] = append(lines[file], span{from, from + n - 1})
	}
	return lines, scanner.Err()
}

// testsIn returns the tests of a file that contain one of the lines, or all if a line is outside of tests and imports.
func testsIn(file string, spans []span) ([]string, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, nil, parser.ParseComments)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // removed and not committed
	}
	if err != nil {
		return nil, err
	}
	var tests []string
	owner := map[int]string{} // of a line: a test, or "" for imports
	for _, d := range tree.Decls {
		name, from := "", d.Pos()
		switch d := d.(type) {
		case *ast.GenDecl:
			if d.Tok != token.IMPORT {
				continue
			}
		case *ast.FuncDecl:
			if name = d.Name.Name; d.Recv != nil || !strings.HasPrefix(name, "Test") || name == "TestMain" {
				continue
			}
			tests = append(tests, name)
			if d.Doc != nil {
				from = d.Doc.Pos()
			}
		}
		for line := set.Position(from).Line - 1; line <= set.Position(d.End()).Line+1; line++ { // and the empty lines around
			owner[line] = name
		}
	}
	var touched []string
	for _, s := range spans {
		for line := s.from; line <= s.to; line++ {
			name, ok := owner[line]
			if !ok {
				return tests, nil
			}
			if name != "" && !slices.Contains(touched, name) {
				touched = append(touched, name)
			}
		}
	}
	return touched, nil
}
