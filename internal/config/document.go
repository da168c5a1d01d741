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

// document is a file that is being parsed to a [Config], with the places and problems of its values.
type document struct {
	name     string
	refs     references
	root     *shape
	places   map[string]place
	problems Problems
	moved    []Warning // of settings under their former names
}

// place is the position of a value in the file and its text, with references unexpanded.
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

// maxCollected ends the walk: a file with more problems is not a configuration.
const maxCollected = 100

func (d *document) full() bool { return len(d.problems) >= maxCollected }

// report adds a problem with the value at path, unless the value already has one.
func (d *document) report(path, fix, format string, args ...any) {
	if d.bad(path) {
		return
	}
	d.reportAt(d.place(path), path, fix, format, args...)
}

// wrong adds a value that is not what it must be.
func (d *document) wrong(path, must, is string) {
	if path == "" {
		is = "the file is " + is
	} else {
		is = "is " + is
	}
	d.report(path, "write "+must, "%s", is)
}

// fault adds an error whose text continues the path.
func (d *document) fault(path string, err error) { d.report(path, cdc.Fix(err), "%v", err) }

func (d *document) reportAt(at place, path, fix, format string, args ...any) {
	d.problems = append(d.problems, Problem{
		File: d.name, Line: at.line, Column: at.column, Path: path, Text: fmt.Sprintf(format, args...), Fix: fix,
	})
}

// bad reports whether the value, or what it is part of, has a problem.
func (d *document) bad(path string) bool {
	for _, p := range d.problems {
		if p.Path == path || path != p.Path && strings.HasPrefix(path, p.Path) && strings.ContainsRune(".[", rune(path[len(p.Path)])) {
			return true
		}
	}
	return false
}

// badBelow reports whether the section or a part of it has a problem.
func (d *document) badBelow(path string) bool {
	return d.bad(path) || slices.ContainsFunc(d.problems, func(p Problem) bool { return strings.HasPrefix(p.Path, path+".") })
}

// place returns the place of the value, or of what it would be part of.
func (d *document) place(path string) place {
	for {
		if at, ok := d.places[path]; ok || path == "" {
			return at
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
}

// text returns the value as written in the file, quoted unless it is a number.
func (d *document) text(path string) string {
	at := d.places[path]
	if at.number {
		return at.text
	}
	return fmt.Sprintf("%q", at.text)
}

// parse parses the file, and gives its settings their present names. It returns nil after a problem.
func (d *document) parse(data []byte) *yaml.Node {
	var file yaml.Node
	if err := yaml.Load(data, &file); err != nil {
		d.syntax(err)
		return nil
	}
	if d.migrate(file.Content[0]); len(d.problems) > 0 {
		return nil
	}
	return &file
}

// decode parses and checks the file, and fills in the schema's defaults. It returns nil if the file cannot be decoded.
func (d *document) decode(data []byte) *Config {
	file := d.parse(data)
	if file == nil {
		return nil
	}
	checked, ok := d.value(file.Content[0], d.root, "")
	if !ok {
		return nil
	}
	var c Config
	if err := checked.Load(&c, yaml.WithKnownFields()); err != nil { // which the walk should have found; the error may quote a secret
		d.reportAt(place{}, "", "", "cannot be read")
		return nil
	}
	c.moved = d.moved
	return &c
}

// syntax turns an error of the YAML parser into a problem. The parser's messages are constant, except for the one about
// anchors, which quotes what may be a password.
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
	case strings.Contains(fault.Message, "did not find expected"):
		d.reportAt(at, "", "indent what belongs together alike, and close brackets and quotes", "is not valid YAML: %s", fault.Message)
	default:
		d.reportAt(at, "", "", "is not valid YAML: %s", fault.Message)
	}
}
