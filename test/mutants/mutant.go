package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutant is one defect, and the tests that must notice it.
type mutant struct {
	name string
	// file is the source file, from the root of the repository.
	file  string
	edits []edit
	caughtBy
}

// edit replaces the only occurrence of old.
type edit struct{ old, new string }

// caughtBy are tests of one package, of which at least one must fail.
type caughtBy struct {
	pkg, run string
	// database limits the tests of the built binary to one database; "": all.
	database string
}

// binary reports whether the tests use the built binary.
func (c caughtBy) binary() bool { return c.pkg == faults || c.pkg == commands }

// source returns the mutated file.
func (m *mutant) source(root string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return "", err
	}
	text := string(raw)
	for _, e := range m.edits {
		if n := strings.Count(text, e.old); n != 1 {
			return "", fmt.Errorf("mutant %q: %s has %d times\n%s", m.name, m.file, n, e.old)
		}
		text = strings.Replace(text, e.old, e.new, 1)
	}
	return text, nil
}

// overlay writes the mutated file and the description for go build -overlay into dir, and returns the latter's path.
func (m *mutant) overlay(root, dir string) (string, error) {
	text, err := m.source(root)
	if err != nil {
		return "", err
	}
	mutated := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(mutated, []byte(text), 0o600); err != nil {
		return "", err
	}
	described, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, m.file): mutated}})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, described, 0o600)
}
