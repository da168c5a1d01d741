package config

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"
)

// The walk compares the file with the schema, reports every problem, and returns the nodes for the decoder: references
// expanded, scalars tagged with their required type, defaults filled in. Values with a problem are left out. A function
// returns false only if nothing can be decoded without the value.

// value checks one value.
func (d *document) value(n *yaml.Node, s *shape, path string) (*yaml.Node, bool) {
	d.places[path] = place{line: n.Line, column: n.Column, text: n.Value, number: n.Tag == "!!int" || n.Tag == "!!float"}
	switch {
	case n.Kind == yaml.AliasNode:
		d.report(path, "write the value out", "is an alias, and aliases are not read here")
		return nil, false
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		if path == "" {
			d.report(path, "start from the annotated example, deploy/cdc-relay.yaml", "the file is empty")
		} else {
			d.report(path, "give it one"+s.example()+", or remove the key", "has no value")
		}
		return nil, false
	}
	switch s.Type {
	case "object":
		if s.Short != "" && n.Kind == yaml.ScalarNode {
			return d.short(n, s, path)
		}
		return d.mapping(n, s, path)
	case "array":
		return d.list(n, s, path)
	default:
		return d.scalar(n, s, path)
	}
}

// short checks a text that stands for an object with one property.
func (d *document) short(n *yaml.Node, s *shape, path string) (*yaml.Node, bool) {
	property := *s.Properties[s.Short]
	property.MinLength, property.Examples = 1, s.Examples
	checked, ok := d.scalar(n, &property, path)
	if !ok {
		return nil, false
	}
	out := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: n.Line, Column: n.Column, Content: []*yaml.Node{text(s.Short, n), checked}}
	d.complete(out, s, path, &keys{})
	return out, true
}

func (d *document) mapping(n *yaml.Node, s *shape, path string) (*yaml.Node, bool) {
	if n.Kind != yaml.MappingNode {
		d.wrong(path, "settings as lines of key: value", kind(n))
		return nil, false
	}
	out := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: n.Line, Column: n.Column}
	seen := &keys{lines: map[string]int{}, meant: map[string]bool{}}
	for i := 0; i+1 < len(n.Content) && !d.full(); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		child := s.child(key.Value)
		if !d.key(key, child, s, path, seen) {
			continue
		}
		if checked, ok := d.value(value, child, dotted(path, key.Value)); ok {
			out.Content = append(out.Content, text(key.Value, key), checked)
		}
	}
	d.complete(out, s, path, seen)
	return out, true
}

// keys are a mapping's keys: their lines, and the known keys that unknown ones are similar to.
type keys struct {
	lines map[string]int
	meant map[string]bool
}

// child returns the shape of a key's value, or nil.
func (s *shape) child(key string) *shape {
	if s.isMap() {
		return s.Additional
	}
	return s.Properties[key]
}

// key checks that a key is known and new.
func (d *document) key(n *yaml.Node, child, s *shape, path string, seen *keys) bool {
	at, full := place{line: n.Line, column: n.Column}, dotted(path, n.Value)
	switch first, twice := seen.lines[n.Value]; {
	case n.Kind != yaml.ScalarNode:
		d.reportAt(at, path, "write key: value", "has a key that is not plain text")
		return false
	case twice:
		d.reportAt(at, full, "keep one", "is set twice, first on line %d", first)
		return false
	case child == nil:
		d.reportAt(at, full, d.unknown(n.Value, s, path, seen), "is not a setting")
		return false
	}
	seen.lines[n.Value] = n.Line
	return true
}

// unknown returns the hint for an unknown key.
func (d *document) unknown(key string, s *shape, path string, seen *keys) string {
	if near := closest(key, s.keys()); near != "" {
		seen.meant[near] = true
		return fmt.Sprintf("did you mean %s?", near)
	}
	if path == "" {
		path = "the file"
	}
	return fmt.Sprintf("use what %s takes: %s", path, strings.Join(s.keys(), ", "))
}

// complete adds missing sections and defaults to a mapping, and reports missing required settings.
func (d *document) complete(out *yaml.Node, s *shape, path string, seen *keys) {
	have := map[string]bool{}
	for i := 0; i < len(out.Content); i += 2 {
		have[out.Content[i].Value] = true
	}
	for _, key := range s.keys() {
		child, full := s.Properties[key], dotted(path, key)
		if have[key] {
			continue
		}
		var value *yaml.Node
		switch {
		case child.Type == "object" && !child.Optional && !child.isMap():
			value, _ = d.mapping(&yaml.Node{Kind: yaml.MappingNode}, child, full)
		case child.Default != nil:
			value = d.typed(strings.Trim(string(child.Default), `"`), out, child)
		case !seen.meant[key] && s.requires(key): // also one with a problem, which is not reported again
			d.report(full, "set it"+child.example(), "is missing")
		}
		if value != nil {
			out.Content = append(out.Content, text(key, out), value)
		}
	}
}

func (d *document) list(n *yaml.Node, s *shape, path string) (*yaml.Node, bool) {
	if n.Kind != yaml.SequenceNode {
		d.wrong(path, "a list"+s.example(), kind(n))
		return nil, false
	}
	if len(n.Content) < s.MinItems {
		d.report(path, fmt.Sprintf("give it at least %d entry%s", s.MinItems, s.example()), "is empty")
		return nil, false
	}
	out := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: n.Line, Column: n.Column}
	for i, item := range n.Content {
		if d.full() {
			break
		}
		checked, ok := d.value(item, s.Items, fmt.Sprintf("%s[%d]", path, i))
		if !ok {
			checked = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"} // keeps the others' places
		}
		out.Content = append(out.Content, checked)
	}
	return out, true
}

// kind names the kind of a value in error messages.
func kind(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!int" || n.Tag == "!!float":
		return "a number"
	case n.Tag == "!!bool":
		return "true or false"
	default:
		return "text"
	}
}

// text returns a scalar that the decoder takes as text, at the place of another node.
func text(value string, at *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value, Line: at.Line, Column: at.Column}
}
