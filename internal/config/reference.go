package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// part is a part of a value: text, or a file that is replaced by its content.
type part struct {
	text string
	file string
}

// references expands ${env:NAME}, ${env:NAME:-default} and ${file:PATH}. Everything else, other uses of
// $ and { included, is text; $${env: and $${file: stand for ${env: and ${file:.
type references struct {
	dir string
	env func(string) (string, bool)
}

// referencePattern matches an escaped start of a reference, or a reference and its closing brace.
var referencePattern = regexp.MustCompile(`\$(\$\{(?:env|file):)|\$\{((?:env|file):[^}]*)(}?)`)

// split returns the parts of a value; found is false if it contains no reference. The value of a variable is not expanded
// again.
func (r references) split(value string) (parts []part, found bool, err error) {
	var text strings.Builder
	end := 0
	for _, m := range referencePattern.FindAllStringSubmatchIndex(value, -1) {
		text.WriteString(value[end:m[0]])
		end = m[1]
		if m[2] >= 0 { // $${env:…
			text.WriteString(value[m[2]:m[3]])
			continue
		}
		if m[6] == m[7] {
			return nil, true, cdc.Fixable("close it with }", "has a ${ without its }")
		}
		p, err := r.expand(value[m[4]:m[5]])
		if err != nil {
			return nil, true, err
		}
		if p.file != "" {
			parts = append(parts, part{text: text.String()}, p)
			text.Reset()
		}
		text.WriteString(p.text)
		found = true
	}
	text.WriteString(value[end:])
	return append(parts, part{text: text.String()}), found, nil
}

// expand reads the body of a reference, "env:NAME:-default" or "file:PATH".
func (r references) expand(body string) (part, error) {
	if strings.Contains(body, "${") {
		return part{}, cdc.Fixable("write one reference", "has a reference inside another")
	}
	if path, ok := strings.CutPrefix(body, "file:"); ok {
		if path == "" {
			return part{}, cdc.Fixable("write ${file:/path/to/file}", "has ${file:} without a path")
		}
		return part{file: resolve(r.dir, path)}, nil
	}
	name, fallback, hasFallback := strings.Cut(strings.TrimPrefix(body, "env:"), ":-")
	if !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(name) {
		return part{}, cdc.Fixable("write ${env:NAME} or ${env:NAME:-default}", "has ${env:} with a name that no environment variable has")
	}
	value, set := r.env(name)
	switch {
	case hasFallback && value == "":
		return part{text: fallback}, nil
	case !set:
		return part{}, cdc.Fixable("set it, or give a default with ${env:"+name+":-default}",
			"uses ${env:%[1]s}, but the environment variable %[1]s is not set", name)
	default:
		return part{text: value}, nil
	}
}

// resolve resolves a relative path from the configuration file's directory.
func resolve(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// readSecret returns a file's content without one newline at its end.
func readSecret(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", pathless(err)
	}
	return trimNewline(string(content)), nil
}

// trimNewline removes one newline at the end.
func trimNewline(text string) string {
	return strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
}

// join reads the files and joins the parts.
func join(parts []part) (string, error) {
	var b strings.Builder
	for _, p := range parts {
		text := p.text
		if p.file != "" {
			var err error
			if text, err = readSecret(p.file); err != nil {
				return "", cdc.Fixable("create it, or correct the path", "uses the file %s, but it cannot be read (%w)", p.file, err)
			}
		}
		b.WriteString(text)
	}
	return b.String(), nil
}
