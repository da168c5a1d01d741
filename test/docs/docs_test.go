// Package docs verifies the documentation against the code, the servers and the binary.
package docs

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

const root = "../.."

// pages returns all Markdown files by their path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "test/docs/*.md"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			name, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			texts[name] = read(t, name)
		}
	}
	if len(texts) < 8 {
		t.Fatalf("only %d pages were found", len(texts))
	}
	return texts
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	link    = regexp.MustCompile(`\]\(([^)#\s]*)(#[^)\s]*)?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fence   = regexp.MustCompile("(?m)^( *)```([a-z ]*)\n((?s:.*?)\n) *```$")
	span    = regexp.MustCompile("`([^`\n]+)`")
)

func TestLinksResolve(t *testing.T) {
	for name, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, anchor := m[1], m[2]
			if strings.Contains(target, "://") {
				continue
			}
			path := name
			if target != "" {
				path = filepath.Join(filepath.Dir(name), target)
			}
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s links to %s: %v", name, target, err)
				continue
			}
			if anchor != "" && !slices.Contains(anchors(read(t, path)), anchor) {
				t.Errorf("%s links to %s%s: there is no such heading", name, path, anchor)
			}
		}
	}
}

// anchors returns the anchors that GitHub generates for headings.
func anchors(text string) []string {
	var all []string
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		slug := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, "#"+strings.ReplaceAll(slug, " ", "-"))
	}
	return all
}

// The Go code of these pages is in files that are tested.
func TestExamplesOfPages(t *testing.T) {
	unindented := func(text string) string { return regexp.MustCompile(`\n\t+`).ReplaceAllString(text, "\n") }
	for page, files := range map[string][]string{
		"README.md": {"writer/example_test.go"},
		"docs/go.md": {
			"test/writer/run_orms_test.go", "test/writer/testdata/ent/main.go.txt", "test/writer/context_test.go", "writer/example_test.go", "writer/example_unit_test.go", "writer/writertest/example_test.go",
		},
		"docs/idempotency.md": {"inbox/idempotency/example_test.go"},
		"docs/consumer.md":    {"inbox/example_test.go", "inbox/kgoinbox/example_test.go", "inbox/inboxtest/inboxtest_test.go"},
	} {
		var tested strings.Builder
		for _, file := range files {
			tested.WriteString(unindented(read(t, file)))
		}
		for _, block := range blocks(read(t, page), "go") {
			if !strings.Contains(tested.String(), unindented(block)) {
				t.Errorf("no test holds this example of %s:\n%s", page, block)
			}
		}
	}
}

// blocks returns the fenced blocks of languages without their indentation.
func blocks(text string, languages ...string) []string {
	var found []string
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		if slices.Contains(languages, m[2]) {
			found = append(found, strings.TrimPrefix(strings.ReplaceAll("\n"+m[3], "\n"+m[1], "\n"), "\n"))
		}
	}
	return found
}

// code returns everything in backquotes, and the lines of fenced blocks.
func code(text string) []string {
	var found []string
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(m[3]) {
			found = append(found, strings.TrimPrefix(strings.TrimSpace(line), "$ "))
		}
	}
	for _, m := range span.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		found = append(found, m[1])
	}
	return found
}

// Every command that the pages name exists and has the flags that they give.
func TestNamedCommandsExist(t *testing.T) {
	binary := relay(t)
	word, flag := regexp.MustCompile(`^[a-z]+$`), regexp.MustCompile(`^--[a-z-]+$`)
	helps := map[string]string{}
	for name, text := range pages(t) {
		for _, line := range code(text) {
			words := strings.Fields(line)
			if len(words) < 2 || words[0] != "cdc-relay" || !word.MatchString(words[1]) {
				continue
			}
			var path []string
			for _, w := range words[1:] {
				if !word.MatchString(w) || len(path) == 2 {
					break
				}
				path = append(path, w)
			}
			command := strings.Join(path, " ")
			if _, known := helps[command]; !known {
				helps[command] = help(t, binary, path)
			}
			if helps[command] == "" {
				t.Errorf("%s names `cdc-relay %s`, which does not exist", name, command)
				continue
			}
			for _, w := range words[1:] {
				if flag.MatchString(w) && !regexp.MustCompile(regexp.QuoteMeta(w)+`\b`).MatchString(helps[command]) {
					t.Errorf("%s gives cdc-relay %s the flag %s, which it does not have", name, command, w)
				}
			}
		}
	}
	if len(helps) < 12 {
		t.Errorf("only %d commands were found", len(helps))
	}
}

// help returns the command's help, or "" if there is no such command.
func help(t *testing.T, binary string, path []string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, append(path, "--help")...)
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()
	if err != nil || !bytes.Contains(out, []byte("cdc-relay "+strings.Join(path, " "))) {
		return ""
	}
	return string(out)
}

func relay(t *testing.T) string {
	t.Helper()
	binary, err := cdctest.Binary(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// schema is the part of a JSON schema that is needed to look up a setting.
type schema struct {
	Ref        string             `json:"$ref"`
	Defs       map[string]*schema `json:"$defs"`
	Properties map[string]*schema `json:"properties"`
	AnyOf      []*schema          `json:"anyOf"`
}

// Every setting that the pages name exists.
func TestNamedSettingsExist(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), relay(t), "config", "schema").Output()
	if err != nil {
		t.Fatal(err)
	}
	var all schema
	if err := json.Unmarshal(out, &all); err != nil {
		t.Fatal(err)
	}
	sections := slices.Collect(maps.Keys(all.resolve(&all).Properties))
	setting := regexp.MustCompile(`^(` + strings.Join(sections, "|") + `)(\.[a-z_]+)+(: .*)?$`)
	named := 0
	for name, text := range pages(t) {
		for _, m := range span.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			if !setting.MatchString(m[1]) || m[1] == "retention.ms" { // a topic's
				continue
			}
			named++
			path, _, _ := strings.Cut(m[1], ":")
			if !all.has(strings.Split(path, ".")) {
				t.Errorf("%s names the setting %s, which does not exist", name, path)
			}
		}
	}
	if named < 50 {
		t.Errorf("only %d settings were found", named)
	}
}

func (s *schema) resolve(all *schema) *schema {
	for s != nil && s.Ref != "" {
		s = all.Defs[strings.TrimPrefix(s.Ref, "#/$defs/")]
	}
	if s != nil && len(s.AnyOf) > 0 { // the form that is not short
		return s.AnyOf[0]
	}
	return s
}

func (s *schema) has(path []string) bool {
	node := s.resolve(s)
	for _, name := range path {
		if node == nil {
			return false
		}
		node = node.Properties[name].resolve(s)
	}
	return node != nil
}

// Every metric in rules and dashboard is on the page of metrics, which TestMetricsPage holds to the code, with the labels that panels
// show. What alerts ask has a panel.
func TestNamedMetricsExist(t *testing.T) {
	labels := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)(?:{(.*)})?`").FindAllStringSubmatch(read(t, "docs/metrics.md"), -1) {
		labels[m[1]] = m[2]
	}
	rules, dashboard := read(t, "deploy/helm/cdc-relay/files/rules.yaml"), read(t, "deploy/helm/cdc-relay/files/dashboard.json")
	metric := regexp.MustCompile(`\bcdc_relay_([a-z_]+?)(_bucket)?\b`)
	for _, m := range metric.FindAllStringSubmatch(rules+dashboard, -1) {
		if _, known := labels[m[1]]; !known || !strings.Contains(dashboard, m[0]) {
			t.Errorf("there is no metric %s, or no panel shows it", m[1])
		}
	}
	queries := regexp.MustCompile(`"expr": "(.*?)", "legendFormat": "(.*?)"`).FindAllStringSubmatch(dashboard, -1)
	for _, q := range queries {
		known := "cluster,namespace,job,instance,alertname,database"
		for _, m := range metric.FindAllStringSubmatch(q[1], -1) {
			known += "," + labels[m[1]]
		}
		for _, m := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(q[2], -1) {
			if !slices.Contains(strings.Split(known, ","), m[1]) {
				t.Errorf("%s has no label %s", q[1], m[1])
			}
		}
	}
	if len(queries) < 30 {
		t.Errorf("only %d queries were found", len(queries))
	}
}

// Every make target that the pages name exists.
func TestNamedTargetsExist(t *testing.T) {
	targets := read(t, "Makefile")
	for name, text := range pages(t) {
		for _, m := range regexp.MustCompile("(?m)(?:`|^)make ([a-z-]+)").FindAllStringSubmatch(text, -1) {
			if !strings.Contains(targets, "\n"+m[1]+":") {
				t.Errorf("%s names `make %s`, which does not exist", name, m[1])
			}
		}
	}
}

// sources returns the text of all Go files in a directory: the tests, or all others.
func sources(t *testing.T, folder string, tests bool) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") != tests {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
