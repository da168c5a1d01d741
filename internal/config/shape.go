package config

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

//go:embed schema.json
var schemaJSON []byte

// Schema returns the JSON schema of the configuration file (draft 2020-12).
func Schema() []byte { return bytes.Clone(schemaJSON) }

// The formats of strings that mean more than text.
const (
	formatDuration = "go-duration"
	formatSize     = "byte-size"
	formatSecret   = "secret"
	formatPath     = "path"
)

// shape is the schema of one value.
type shape struct {
	Type       string            `json:"type"`
	Properties map[string]*shape `json:"properties"`
	Required   []string          `json:"required"`
	Items      *shape            `json:"items"`
	// Additional is the shape of the values of a map.
	Additional *shape `json:"additionalProperties"`
	// AnyOf lists the forms of the value; the first one is used.
	AnyOf  []*shape `json:"anyOf"`
	Enum   []string `json:"enum"`
	Format string   `json:"format"`
	// Default is a number, true, false, or a text in which nothing is escaped.
	Default   json.RawMessage `json:"default"`
	Examples  []any           `json:"examples"`
	Minimum   *int64          `json:"minimum"`
	Maximum   *int64          `json:"maximum"`
	MinLength int             `json:"minLength"`
	MinItems  int             `json:"minItems"`
	// Optional marks an object that is absent unless the file has it.
	Optional bool `json:"x-optional"`
	// Short is the property that a text in place of the object stands for, or "".
	Short string `json:"x-short"`
	// Example is one of a value that Ref describes.
	Example string `json:"x-example"`
	// Ref names one of the definitions, which has the rest.
	Ref         string            `json:"$ref"`
	Definitions map[string]*shape `json:"$defs"`
	// Zero says that a duration may be 0.
	Zero bool `json:"x-zero"`
}

func rootShape() *shape {
	var s shape
	if err := json.Unmarshal(schemaJSON, &s); err != nil {
		panic(fmt.Sprintf("schema.json: %v", err)) // generated and embedded: cannot happen
	}
	s.resolve(s.Definitions)
	return &s
}

// resolve puts definitions in the place of references.
func (s *shape) resolve(definitions map[string]*shape) {
	if of := definitions[strings.TrimPrefix(s.Ref, "#/$defs/")]; of != nil {
		s.Type, s.Properties, s.Required, s.Additional, s.Short = of.Type, of.Properties, of.Required, of.Additional, of.Short
		if s.Example != "" {
			s.Examples = []any{s.Example}
		}
	}
	for _, key := range s.keys() {
		s.Properties[key].resolve(definitions)
	}
	for _, each := range []*shape{s.Items, s.Additional} {
		if each != nil {
			each.resolve(definitions)
		}
	}
}

// UnmarshalJSON reads a schema and folds the first alternative into it. The schema false, which is for keys of no setting, is that of
// nothing.
func (s *shape) UnmarshalJSON(data []byte) error {
	type plain shape
	if string(data) == "false" {
		return nil
	}
	if err := json.Unmarshal(data, (*plain)(s)); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	if len(s.AnyOf) > 0 {
		first := s.AnyOf[0]
		s.Type, s.Enum, s.Format, s.Minimum, s.Maximum = first.Type, first.Enum, first.Format, first.Minimum, first.Maximum
		s.Properties, s.Required, s.Additional = first.Properties, first.Required, first.Additional
	}
	return nil
}

// isMap reports whether the object may have any keys.
func (s *shape) isMap() bool { return s.Type == "object" && s.Properties == nil }

func (s *shape) keys() []string { return slices.Sorted(maps.Keys(s.Properties)) }

func (s *shape) requires(key string) bool { return slices.Contains(s.Required, key) }

// example returns ", such as …" for error messages, or "".
func (s *shape) example() string {
	if s.Type == "array" && s.Items != nil && len(s.Examples) == 0 {
		if len(s.Items.Examples) == 0 {
			return ""
		}
		return fmt.Sprintf(", such as [%v]", s.Items.Examples[0])
	}
	if len(s.Examples) == 0 {
		return ""
	}
	return fmt.Sprintf(", such as %v", s.Examples[0])
}

func dotted(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
