package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
)

// changed leaves of all parts the tests that changed since a commit. Tests of code that changed are not known here: name them with
// `go test -run`.
func changed(ctx context.Context, o options, all []part) ([]part, error) {
	var files []string
	for _, args := range [][]string{
		{"diff", "--name-only", "--diff-filter=d", o.base},
		{"ls-files", "--others", "--exclude-standard"},
	} {
		out, err := git(ctx, append(args, "--", "*_test.go", ":!*/testdata/*")...)
		if err != nil {
			return nil, err
		}
		files = append(files, strings.Fields(out)...)
	}
	var names, dirs [2][]string // of units, of test/
	for _, file := range files {
		tests, err := changedTests(ctx, o.base, file)
		if err != nil {
			return nil, err
		}
		i := 0
		if strings.HasPrefix(file, "test/") {
			i = 1
		}
		if len(tests) > 0 {
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

var ofTest = regexp.MustCompile(`(?m)^[ +]?func (Test\w*)\(t `)

// changedTests returns the tests of a file that changed, or all of them if it changed elsewhere alone, or is not committed.
func changedTests(ctx context.Context, base, file string) ([]string, error) {
	diff, err := git(ctx, "diff", "--function-context", "--no-color", "--no-ext-diff", base, "--", file)
	if err != nil {
		return nil, err
	}
	found := ofTest.FindAllStringSubmatch(diff, -1)
	if found == nil {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		found = ofTest.FindAllStringSubmatch(string(text), -1)
	}
	tests := make([]string, len(found))
	for i, m := range found {
		tests[i] = m[1]
	}
	return tests, nil
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}
