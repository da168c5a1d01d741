package docs

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

//go:generate go test -run "^Test(FaultTable|MetricsPage|AlertHeads)$" -update .

var update = flag.Bool("update", false, "write what is generated of the pages")

// current compares a page with what it should be, or writes it under -update.
func current(t *testing.T, page, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(filepath.Join(root, page), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if read(t, page) != want {
		t.Errorf("%s is not current: run go generate ./test/docs", page)
	}
}

// between replaces what is between the marks of a name.
func between(t *testing.T, text, name, by string) string {
	t.Helper()
	from, to := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
	before, rest, ok := strings.Cut(text, from)
	_, after, closed := strings.Cut(rest, to)
	if !ok || !closed {
		t.Fatalf("the page lacks %s", from)
	}
	return before + from + by + to + after
}

var (
	// metricMade finds a metric in the code: what makes it, its name and help, and the rest of the call, which may have its labels.
	metricMade = []*regexp.Regexp{
		regexp.MustCompile(`\b(counter|gauge|histogram|name|NewDesc)\("(?:cdc_relay_)?([a-z_]+)", "([A-Z0-9][^"]+)"((?s:.*?\).*?))\n`),
		regexp.MustCompile(`(?:New(Histogram)\()?(?:prometheus\.\w+\{\s*(?:Namespace: "cdc_relay", )?)?Name: "(?:cdc_relay_)?([a-z_]+)",\s+Help: +"([^"]+)"((?s:.*?\).*?))\n`),
	}
	quoted = regexp.MustCompile(`"[a-z_]+"`)
)

// The page of metrics has those of the code, with their help.
func TestMetricsPage(t *testing.T) {
	const page = "docs/metrics.md"
	found := map[string]map[string]string{"counters": {}, "gauges": {}, "histograms": {}}
	files, _ := fs.Glob(os.DirFS(root), "[ci][mn]*/*/*.go") // cmd and internal
	files = slices.DeleteFunc(files, func(path string) bool { return strings.HasSuffix(path, "_test.go") })
	help := regexp.MustCompile(`const (Help\w+) = (".*")`)
	var shared []string // the help texts of metrics that are made in several packages
	for _, path := range files {
		for _, m := range help.FindAllStringSubmatch(read(t, path), -1) {
			shared = append(shared, "cdc."+m[1], m[2])
		}
	}
	for _, path := range files {
		text := strings.NewReplacer(shared...).Replace(read(t, path))
		for _, made := range metricMade {
			for _, m := range made.FindAllStringSubmatch(text, -1) {
				if strings.HasPrefix(m[2], "page_") { // not served
					continue
				}
				kind, name, labels := "gauges", m[2], quoted.FindAllString(m[4], -1)
				if labels == nil { // those of the function
					_, set, _ := strings.Cut(regexp.MustCompile(`(?ms)^\t`+m[1]+` := func\(.*?^\t\}`).FindString(text), "[]string{")
					labels = quoted.FindAllString(set, -1)
				}
				if labels != nil {
					name += strings.ReplaceAll("{"+strings.Join(labels, ",")+"}", `"`, "")
				}
				if strings.HasSuffix(m[2], "_total") {
					kind = "counters"
				} else if strings.EqualFold(m[1], "histogram") {
					kind = "histograms"
				}
				found[kind][name] = m[3]
			}
		}
	}
	want := read(t, page)
	for kind, rows := range found {
		table := "\n| metric (`cdc_relay_…`) | |\n|---|---|\n"
		for _, name := range slices.Sorted(maps.Keys(rows)) {
			table += fmt.Sprintf("| %#q | %s |\n", name, rows[name])
		}
		want = between(t, want, kind, table+"\n")
	}
	current(t, page, want)
}

// Each alert on the page has its severity, its condition and its time from the rules.
func TestAlertHeads(t *testing.T) {
	const page = "docs/alerts.md"
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr, For string
				Labels           map[string]string
			}
		}
	}
	if err := yaml.Load([]byte(read(t, "deploy/helm/cdc-relay/files/rules.yaml")), &rules); err != nil {
		t.Fatal(err)
	}
	// What only puts relays of one database together, or leaves standbys out, is not shown.
	together := regexp.MustCompile(` \* on \([^)]*\) group_left \([^)]*\) (cdc_relay_info(\{.*?\})?|group by \([^)]*\) \(last_over_time\(.*?\)\))| unless on \([^)]*\) cdc_relay_standby == 1| (by|on) \([^)]*\)`)
	want := read(t, page)
	for _, r := range rules.Groups[1].Rules { // the first group records
		head := strings.TrimSuffix("**"+r.Labels["severity"]+"** if `"+together.ReplaceAllString(r.Expr, "")+"` for "+r.For, " for ")
		want = regexp.MustCompile(`(?m)^## `+r.Alert+`\n(\n> .*\n)?`).ReplaceAllLiteralString(want, "## "+r.Alert+"\n\n> "+head+"\n")
	}
	current(t, page, want)
}
