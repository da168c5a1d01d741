package config_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

var update = flag.Bool("update", false, "write the generated files and the golden files")

// TestGenerated holds the generated files to the structs: go generate writes them. The page's example loads.
func TestGenerated(t *testing.T) {
	schema := reflectSchema(t)
	introduction := example(t, "testdata/introduction.md")
	golden(t, "../../docs/configuration.md", renderDocs(schema, introduction))
	shortErrors(schema)
	golden(t, "schema.json", encodeSchema(t, schema))
	_, text, _ := strings.Cut(introduction, "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	mustParse(t, uncommented(t, text), nil)
}

// golden compares with a file, or writes it under -update.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		testenv.Must(t, os.WriteFile(path, got, 0o644))
		return
	}
	want, err := os.ReadFile(path)
	testenv.Must(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not current: run go generate ./internal/config\n%s", path, firstDifference(want, got))
	}
}

func firstDifference(want, got []byte) string {
	wants, gots := strings.Split(string(want), "\n"), strings.Split(string(got), "\n")
	for i := range min(len(wants), len(gots)) {
		if wants[i] != gots[i] {
			return "have: " + wants[i] + "\nwant: " + gots[i]
		}
	}
	return "one is the beginning of the other"
}

const (
	// refPattern is what a text must hold to stand for a value of another type.
	refPattern      = `\$\{(env|file):[^}]+\}`
	durationPattern = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	sizePattern     = `^[1-9][0-9]* ?(B|KiB|MiB|GiB|KB|MB|GB)?$`
)

func reflectSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	r := &jsonschema.Reflector{
		Anonymous: true, DoNotReference: true, ExpandedStruct: true, RequiredFromJSONSchemaTags: true,
		FieldNameTag: "yaml", Mapper: mapType,
	}
	testenv.Must(t, r.AddGoComments("github.com/cdc-relay/cdc-relay/internal/config", "."))
	r.Mapper = nil
	part, field, assigned := r.Reflect(&config.Part{}), r.Reflect(&config.Field{}), r.Reflect(&config.Assigned{})
	r.Mapper = mapType
	finish(part)
	finish(field)
	finish(assigned)
	field.Version = ""
	short(part, "column", "string")
	short(assigned, "value", "string", "number", "boolean")
	s := r.Reflect(&config.Config{})
	s.Title = "cdc-relay configuration"
	finish(s)
	oneOf(s, "source", "postgres", "mysql")
	s.Definitions = jsonschema.Definitions{"part": part, "field": field, "assigned": assigned, "reference": {
		Type: "string", Pattern: refPattern,
		Description: "A value from the environment or from a file: ${env:NAME}, ${env:NAME:-default} or ${file:PATH}.",
	}}
	return s
}

// short says that a scalar may stand in place of an object with one property.
func short(s *jsonschema.Schema, property string, types ...string) {
	forms := []*jsonschema.Schema{{Type: "object", Properties: s.Properties, AdditionalProperties: s.AdditionalProperties}}
	for _, t := range types {
		forms = append(forms, &jsonschema.Schema{Type: t})
	}
	*s = jsonschema.Schema{AnyOf: forms, Extras: map[string]any{"x-short": property}, Description: s.Description}
}

// shortErrors says that one policy may stand in place of the section.
func shortErrors(s *jsonschema.Schema) {
	at, _ := s.Properties.Get("errors")
	policy, _ := at.Properties.Get("default")
	short(at, "default")
	at.AnyOf = append(at.AnyOf, &jsonschema.Schema{AnyOf: policy.AnyOf})
}

// oneOf says that a section holds exactly one of the settings.
func oneOf(s *jsonschema.Schema, section string, settings ...string) {
	at, _ := s.Properties.Get(section)
	for _, setting := range settings {
		at.OneOf = append(at.OneOf, &jsonschema.Schema{Required: []string{setting}})
	}
}

func encodeSchema(t *testing.T, s *jsonschema.Schema) []byte {
	t.Helper()
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	testenv.Must(t, enc.Encode(s))
	// Extras are encoded apart, with < and > escaped.
	return []byte(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(out.String()))
}

// mapType gives the schema of types that the file writes as text.
func mapType(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return &jsonschema.Schema{Type: "string", Format: "go-duration", Pattern: durationPattern}
	case reflect.TypeFor[config.Size]():
		return &jsonschema.Schema{Type: "string", Format: "byte-size", Pattern: sizePattern}
	case reflect.TypeFor[config.Part]():
		return &jsonschema.Schema{Ref: "#/$defs/part"}
	case reflect.TypeFor[config.Field]():
		return &jsonschema.Schema{Ref: "#/$defs/field"}
	case reflect.TypeFor[config.Assigned]():
		return &jsonschema.Schema{Ref: "#/$defs/assigned"}
	case reflect.TypeFor[config.Secret]():
		return &jsonschema.Schema{Type: "string", Format: "secret", WriteOnly: true}
	default:
		return nil
	}
}

// finish lets a reference stand where a value is restricted, and a scalar of any type where text is free.
func finish(s *jsonschema.Schema) {
	s.Description = strings.Join(strings.Fields(s.Description), " ")
	if s.Items != nil {
		finish(s.Items)
	}
	if s.Properties != nil {
		for p := s.Properties.Oldest(); p != nil; p = p.Next() {
			finish(p.Value)
		}
	}
	if s.Type == "object" && s.Properties == nil && (s.AdditionalProperties == nil || s.AdditionalProperties.Ref == "") {
		s.AdditionalProperties = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "string"}, {Type: "number"}, {Type: "boolean"},
		}}
	}
	if s.Type == "integer" || s.Type == "boolean" || len(s.Enum) > 0 || s.Pattern != "" {
		value := &jsonschema.Schema{
			Type: s.Type, Enum: s.Enum, Format: s.Format, Pattern: s.Pattern, Minimum: s.Minimum, Maximum: s.Maximum,
		}
		s.AnyOf = []*jsonschema.Schema{value, {Ref: "#/$defs/reference"}}
		if s.Format == "byte-size" {
			s.AnyOf = append(s.AnyOf, &jsonschema.Schema{Type: "integer", Minimum: "1"})
		}
		s.Type, s.Enum, s.Format, s.Pattern, s.Minimum, s.Maximum = "", nil, "", "", "", ""
	}
}
