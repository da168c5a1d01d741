package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each mutant still applies to the code, so that none rots. That it compiles, make mutants shows.
func TestMutantsApply(t *testing.T) {
	names := map[string]bool{}
	for _, m := range mutants() {
		text, err := m.source("../..")
		if err != nil {
			t.Error(err)
		}
		if filepath.Ext(m.file) == ".go" {
			if _, err := parser.ParseFile(token.NewFileSet(), m.file, text, parser.SkipObjectResolution); err != nil {
				t.Errorf("mutant %q: %v", m.name, err)
			}
		}
		if names[m.name] {
			t.Errorf("two mutants have the name %q", m.name)
		}
		names[m.name] = true
		if !hasTest(t, &m) {
			t.Errorf("mutant %q: no test of %s matches %s", m.name, m.pkg, m.run)
		}
	}
	if len(names) < 12 {
		t.Errorf("only %d mutants", len(names))
	}
}

var testName = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// hasTest reports whether there is a test that could catch the mutant.
func hasTest(t *testing.T, m *mutant) bool {
	t.Helper()
	top, _, _ := strings.Cut(m.run, "/")
	run, err := regexp.Compile(top)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join("..", "..", m.pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range testName.FindAllSubmatch(text, -1) {
			if run.Match(found[1]) {
				return true
			}
		}
	}
	return false
}
