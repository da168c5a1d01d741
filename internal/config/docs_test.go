package config_test

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"
)

// basic are the settings that matter: they come first in their sections, and introduction.md has an example of each.
var basic = regexp.MustCompile(`^(source\.postgres(\.(dsn|password|tls|slot|publication))?|source\.mysql(\.(dsn|password|tls|id))?|` +
	`tables|tables\[\]\.(name|columns|format|headers)|routes|routes\[\]\.(match|topic|key)|kafka\.(brokers|tls|compression)|` +
	`kafka\.sasl(\.(mechanism|username|password))?|delivery|topics\.create|checkpoint\.(redis|redis\.addrs|file)|` +
	`retention\.keep|errors\.(default|unroutable|malformed|unknown_topic|too_large|rejected)|http\.listen)$`)

// row describes a setting.
type row struct{ path, value, text string }

// renderDocs returns docs/configuration.md: an introduction, and for each section a table of the basic settings and one of the others.
func renderDocs(s *jsonschema.Schema, introduction string) []byte {
	var b strings.Builder
	b.WriteString(introduction)
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		fmt.Fprintf(&b, "\n## %s\n", p.Key)
		if p.Value.Properties != nil {
			fmt.Fprintf(&b, "\n%s\n", p.Value.Description)
		}
		var first, advanced []row
		for _, r := range rows(p.Key, p.Value, slices.Contains(s.Required, p.Key)) {
			switch {
			case basic.MatchString(r.path):
				first = append(first, r)
			case r.text != p.Value.Description || p.Value.Properties == nil: // which stands above
				advanced = append(advanced, r)
			}
		}
		writeTable(&b, first, advanced)
	}
	kafka, _ := s.Properties.Get("kafka")
	tls, _ := kafka.Properties.Get("tls")
	b.WriteString("\n## tls\n\nEvery section `tls` has these settings. `tls: {}` verifies the server with the system's CAs. Files are read again at every connect.\n")
	writeTable(&b, rows("", &jsonschema.Schema{Properties: tls.Properties}, false), nil)
	return []byte(b.String())
}

func writeTable(b *strings.Builder, first, advanced []row) {
	b.WriteString("\n| setting | value | |\n|---|---|---|\n")
	for i, r := range slices.Concat(first, advanced) {
		if i == len(first) && i > 0 {
			b.WriteString("| *advanced* | | |\n")
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", strings.TrimPrefix(r.path, "."), r.value, r.text)
	}
}

// rows returns the settings of a schema, those of a section tls only for the schema of one.
func rows(path string, s *jsonschema.Schema, required bool) (all []row) {
	if s.Properties == nil || s.Extras["x-optional"] == true {
		all = append(all, row{path, valueOf(path, s, required), s.Description})
	}
	prefix, in := path+".", s
	if s.Items != nil {
		prefix, in = path+"[].", s.Items
	}
	if in.Properties == nil || strings.HasSuffix(path, ".tls") {
		return all
	}
	for p := in.Properties.Oldest(); p != nil; p = p.Next() {
		all = append(all, rows(prefix+p.Key, p.Value, slices.Contains(in.Required, p.Key))...)
	}
	return all
}

// valueOf says what a setting takes: its default, which shows the kind, or the kind.
func valueOf(path string, s *jsonschema.Schema, required bool) string {
	preset := s.Default
	if preset == nil {
		preset = s.Extras["x-default"]
	}
	if len(s.AnyOf) > 0 {
		s = s.AnyOf[0]
	}
	if preset == nil && s.Type == "boolean" {
		preset = false
	}
	kind, value := kindOf(path, s), fmt.Sprintf("`%v`", preset)
	switch {
	case required:
		return kind + ", **required**"
	case preset == nil:
		return kind
	case len(s.Enum) > 0:
		return strings.Replace(kind, value, "**"+value+"**", 1)
	default:
		return value
	}
}

func kindOf(path string, s *jsonschema.Schema) string {
	if len(s.Enum) > 0 {
		return "`" + strings.ReplaceAll(strings.Trim(fmt.Sprint(s.Enum), "[]"), " ", "`, `") + "`"
	}
	switch {
	case strings.HasSuffix(path, ".tls"):
		return "[tls](#tls)"
	case strings.HasSuffix(path, "_command"):
		return "command"
	case s.Ref != "":
		return "[part](routing.md#parts-of-an-event)"
	case s.Type == "array" && s.Items.Ref != "":
		return "[parts](routing.md#parts-of-an-event)"
	case s.Type == "object" && s.Properties != nil:
		return "section"
	default:
		formats := map[string]string{"secret": "secret", "path": "file", "go-duration": "duration", "byte-size": "size"}
		return cmp.Or(formats[s.Format], map[string]string{"string": "text", "integer": "number", "array": "list", "object": "map"}[s.Type])
	}
}
