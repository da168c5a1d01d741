package docs

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

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
	cmd, _ := fs.Glob(os.DirFS(root), "cmd/*/*.go")
	internal, _ := fs.Glob(os.DirFS(root), "internal/*/*.go")
	for _, path := range append(cmd, internal...) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text := read(t, path)
		for _, made := range metricMade {
			for _, m := range made.FindAllStringSubmatch(text, -1) {
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
			table += fmt.Sprintf("| `%s` | %s |\n", name, rows[name])
		}
		want = between(t, want, kind, table+"\n")
	}
	current(t, page, want)
}
