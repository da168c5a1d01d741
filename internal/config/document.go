package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// document is one file on its way to a [Config]: where its values stand and what is wrong with them.
type document struct {
	name     string
	refs     references
	root     *shape
	places   map[string]place
	problems Problems
}

// place is where a value stands, and as what: the text is the file's, references unexpanded.
type place struct {
	line, column int
	text         string
	number       bool
}

func newDocument(name string, env func(string) (string, bool)) *document {
	return &document{
		name:   name,
		refs:   references{dir: filepath.Dir(name), env: env},
		root:   rootShape(),
		places: map[string]place{},
	}
}

// err returns the problems in the order of the file, or nil.
func (d *document) err() error {
	if len(d.problems) == 0 {
		return nil
	}
	d.problems.sort()
	return d.problems
}

// maxCollected is where the walk ends: such a file is not a configuration.
const maxCollected = 100

func (d *document) full() bool { return len(d.problems) >= maxCollected }

// report notes a problem with the value at path. What follows from one already noted there is left out.
func (d *document) report(path, fix, format string, args ...any) {
	if d.bad(path) {
		return
	}
	d.reportAt(d.place(path), path, fix, format, args...)
}

// fault notes an error whose text goes on from the path.
func (d *document) fault(path string, err error) { d.report(path, cdc.Fix(err), "%v", err) }

func (d *document) reportAt(at place, path, fix, format string, args ...any) {
	d.problems = append(d.problems, Problem{
		File: d.name, Line: at.line, Column: at.column, Path: path, Text: fmt.Sprintf(format, args...), Fix: fix,
	})
}

// bad reports whether a problem is noted for the value, or for what it is part of.
func (d *document) bad(path string) bool {
	for _, p := range d.problems {
		if p.Path == path || path != p.Path && strings.HasPrefix(path, p.Path) && strings.ContainsRune(".[", rune(path[len(p.Path)])) {
			return true
		}
	}
	return false
}

// badBelow reports whether a problem is noted for the section or for a part of it.
func (d *document) badBelow(path string) bool {
	return d.bad(path) || slices.ContainsFunc(d.problems, func(p Problem) bool { return strings.HasPrefix(p.Path, path+".") })
}

// place returns where the value stands, or else what it would be part of.
func (d *document) place(path string) place {
	for {
		if at, ok := d.places[path]; ok || path == "" {
			return at
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
}

// text returns the value as the file has it, in quotes unless it is a number there.
func (d *document) text(path string) string {
	at := d.places[path]
	if at.number {
		return at.text
	}
	return fmt.Sprintf("%q", at.text)
}

// decode parses and checks the file, and fills in what the schema knows as default. It returns nil when
// nothing could be made of it.
func (d *document) decode(data []byte) *Config {
	var file yaml.Node
	if err := yaml.Load(data, &file); err != nil {
		d.syntax(err)
		return nil
	}
	checked, ok := d.value(file.Content[0], d.root, "")
	if !ok {
		return nil
	}
	var c Config
	if err := checked.Load(&c, yaml.WithKnownFields()); err != nil {
		d.undecodable(err)
		return nil
	}
	return &c
}

// syntax turns an error of the YAML parser into a problem. The parser's sentences are fixed, except for
// the one on anchors, which quotes what may be an unquoted password.
func (d *document) syntax(err error) {
	var fault *yaml.LoadError
	if !errors.As(err, &fault) {
		d.reportAt(place{}, "", "", "is not valid YAML")
		return
	}
	at := place{line: fault.Mark.Line, column: fault.Mark.Column}
	switch {
	case strings.Contains(fault.Message, "no documents"):
		d.reportAt(at, "", "start from the annotated example, deploy/cdc-relay.yaml", "the file is empty")
	case strings.Contains(fault.Message, "found multiple"):
		d.reportAt(at, "", "remove the line --- and what follows it", "holds more than one YAML document")
	case strings.Contains(fault.Message, "anchor"):
		d.reportAt(at, "", "put it in quotes", "is not valid YAML: a value that starts with * is an alias")
	case strings.Contains(fault.Message, "cannot start any token"):
		d.reportAt(at, "", "indent with spaces, not tabs, and put values that start with @, ` or % in quotes", "is not valid YAML")
	case strings.Contains(fault.Message, "mapping values are not allowed"):
		d.reportAt(at, "", "check the indentation, and put values that hold a colon and a space in quotes", "is not valid YAML")
	default:
		d.reportAt(at, "", "", "is not valid YAML: %s", fault.Message)
	}
}

// undecodable is for what the walk should have found; it names the line and shows no value.
func (d *document) undecodable(err error) {
	var faults *yaml.LoadErrors
	if !errors.As(err, &faults) || len(faults.Errors) == 0 {
		d.reportAt(place{}, "", "", "cannot be read")
		return
	}
	for _, fault := range faults.Errors {
		d.reportAt(place{line: fault.Mark.Line, column: fault.Mark.Column}, "", "", "a value cannot be read")
	}
}
