package config_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"
)

// renderDocs returns docs/configuration.md: an introduction and a table of settings for each section.
func renderDocs(s *jsonschema.Schema, introduction string) []byte {
	var b strings.Builder
	b.WriteString(introduction)
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		fmt.Fprintf(&b, "\n## %s\n", p.Key)
		if p.Value.Properties != nil {
			fmt.Fprintf(&b, "\n%s\n", p.Value.Description)
		}
		b.WriteString("\n| setting | value | default | |\n|---|---|---|---|\n")
		renderRows(&b, p.Key, p.Value, slices.Contains(s.Required, p.Key))
	}
	return []byte(b.String())
}

func renderRows(b *strings.Builder, path string, s *jsonschema.Schema, required bool) {
	if s.Properties == nil || s.Extras["x-optional"] == true {
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", path, valueOf(s), defaultOf(s, required), s.Description)
	}
	switch {
	case s.Properties != nil:
		for p := s.Properties.Oldest(); p != nil; p = p.Next() {
			renderRows(b, path+"."+p.Key, p.Value, slices.Contains(s.Required, p.Key))
		}
	case s.Items != nil && s.Items.Properties != nil:
		for p := s.Items.Properties.Oldest(); p != nil; p = p.Next() {
			renderRows(b, path+"[]."+p.Key, p.Value, slices.Contains(s.Items.Required, p.Key))
		}
	}
}

func valueOf(s *jsonschema.Schema) string {
	if len(s.AnyOf) > 0 {
		s = s.AnyOf[0]
	}
	if len(s.Enum) > 0 {
		values := make([]string, len(s.Enum))
		for i, v := range s.Enum {
			values[i] = fmt.Sprintf("`%v`", v)
		}
		return strings.Join(values, ", ")
	}
	if name := map[string]string{
		"secret": "secret", "path": "file", "go-duration": "duration", "byte-size": "size",
	}[s.Format]; name != "" {
		return name
	}
	switch {
	case s.Ref != "":
		return "[part](#parts-of-an-event)"
	case s.Type == "string":
		return "text"
	case s.Type == "integer":
		return "whole number"
	case s.Type == "array" && s.Items.Ref != "":
		return "list of [named parts](#parts-of-an-event)"
	case s.Type == "array" && s.Items.Properties == nil:
		return "list of text"
	case s.Type == "array":
		return "list"
	case s.Type == "object" && s.Properties == nil:
		return "names and text"
	case s.Type == "object":
		return "section"
	default:
		return "true, false"
	}
}

func defaultOf(s *jsonschema.Schema, required bool) string {
	switch {
	case required:
		return "**required**"
	case s.Default != nil:
		return fmt.Sprintf("`%v`", s.Default)
	case s.Extras["x-default"] != nil:
		return fmt.Sprintf("`%v`", s.Extras["x-default"])
	default:
		return "none"
	}
}
