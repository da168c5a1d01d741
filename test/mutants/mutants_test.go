package main

import (
	"go/parser"
	"go/token"
	"path/filepath"
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
	}
	if len(names) < 12 {
		t.Errorf("only %d mutants", len(names))
	}
}
