package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// scalar checks a scalar value.
func (d *document) scalar(n *yaml.Node, s *shape, path string) (*yaml.Node, bool) {
	if n.Kind != yaml.ScalarNode {
		d.wrong(path, s.noun(), kind(n))
		return nil, false
	}
	if n.Style&yaml.TaggedStyle != 0 && n.Tag != "!!str" {
		d.report(path, "remove it, or put the value in quotes", "has a YAML tag")
		return nil, false
	}
	parts, found, err := d.refs.split(n.Value)
	if err != nil {
		d.fault(path, err)
		return nil, false
	}
	value, err := join(parts)
	if err != nil {
		d.fault(path, err)
		return nil, false
	}
	if value == "" && s.MinLength > 0 {
		d.report(path, "set it"+s.example(), "is empty")
		return nil, false
	}
	if s.Format == formatSecret {
		return secretNode(parts, n), true
	}
	quoted := n.Tag == "!!str" && !found
	if must := s.must(value, quoted); must != "" {
		d.wrong(path, must, d.text(path))
		return nil, false
	}
	return d.typed(value, n, s), true
}

// noun says what the value must be, for error messages.
func (s *shape) noun() string {
	switch {
	case len(s.Enum) > 0:
		return "one of " + strings.Join(s.Enum, ", ")
	case s.Type == "integer":
		return "a whole number"
	case s.Type == "boolean":
		return "true or false"
	case s.Format == formatDuration && s.Zero:
		return "a duration such as 0s, 3s or 1m30s"
	case s.Format == formatDuration:
		return "a positive duration such as 200ms, 3s or 1m30s"
	case s.Format == formatSize:
		return "a size such as 64KiB or 8MiB"
	default:
		return "text" + s.example()
	}
}

// must returns what the value must be in place of what it is, or "". quoted is for text that cannot be a number or boolean.
func (s *shape) must(value string, quoted bool) string {
	switch {
	case len(s.Enum) > 0 && !slices.Contains(s.Enum, value),
		s.Type == "boolean" && (quoted || value != "true" && value != "false"):
		return s.noun()
	case s.Type == "integer":
		return s.mustInteger(value, quoted)
	case s.Format == formatDuration:
		if v, err := time.ParseDuration(value); err != nil || v < 0 || v == 0 && !s.Zero {
			return s.noun()
		}
	case s.Format == formatSize:
		if _, err := ParseSize(value); err != nil {
			return s.noun()
		}
	}
	return ""
}

func (s *shape) mustInteger(value string, quoted bool) string {
	v, err := strconv.ParseInt(value, 10, 64)
	switch {
	case err != nil:
		return "a whole number"
	case quoted:
		return "a whole number without quotes"
	case (&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: value}).Load(&v) != nil: // YAML takes 010 for 8, and 08 for no number
		return "a whole number without a zero in front"
	}
	if s.Minimum != nil && v < *s.Minimum || s.Maximum != nil && v > *s.Maximum {
		return fmt.Sprintf("a number between %d and %d", *s.Minimum, *s.Maximum)
	}
	return ""
}

// typed returns a scalar with the tag of the type it must have.
func (d *document) typed(value string, n *yaml.Node, s *shape) *yaml.Node {
	out := text(value, n)
	switch {
	case s.Type == "integer":
		out.Tag = "!!int"
	case s.Type == "boolean":
		out.Tag = "!!bool"
	case s.Format == formatPath:
		out.Value = resolve(d.refs.dir, value)
	}
	return out
}

// secretNode returns the node that [Secret.UnmarshalYAML] decodes.
func secretNode(parts []part, n *yaml.Node) *yaml.Node {
	out := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: n.Line, Column: n.Column}
	for _, p := range parts {
		if p.file != "" {
			out.Content = append(out.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: tagFile, Value: p.file})
		} else if p.text != "" {
			out.Content = append(out.Content, text(p.text, n))
		}
	}
	return out
}
