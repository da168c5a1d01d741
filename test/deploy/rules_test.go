package deploy

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

const (
	rules      = chart + "/files/rules.yaml"
	rulesTests = root + "/deploy/prometheus/rules_test.yaml"
)

func TestRules(t *testing.T) {
	t.Parallel()
	output(t, testenv.Tool(t, "promtool", "check", "rules", rules))
	output(t, testenv.Tool(t, "promtool", "test", "rules", rulesTests))
}

func TestDashboardIsGenerated(t *testing.T) {
	t.Parallel()
	if output(t, testenv.Interpreter(t, testenv.Python, root+"/deploy/grafana/dashboard.py")) != read(t, chart+"/files/dashboard.json") {
		t.Error("the dashboard is not what its generator prints: run make dashboard")
	}
}

// Each alert has a test in which it fires and one in which it does not, a chapter that says what to do, and a panel that links to it.
func TestEveryAlertIsTestedAndExplained(t *testing.T) {
	t.Parallel()
	names := func(path, pattern string) (found []string) {
		for _, m := range regexp.MustCompile(`(?m)`+pattern).FindAllStringSubmatch(read(t, path), -1) {
			found = append(found, m[1])
		}
		return found
	}
	alerts := names(rules, `^ *- alert: (\w+)`)
	if len(alerts) < 10 {
		t.Fatalf("alerts are not recognised: %v", alerts)
	}
	lower := make([]string, len(alerts))
	for i, name := range alerts {
		lower[i] = strings.ToLower(name)
		if !strings.Contains(read(t, chart+"/files/dashboard.json"), "/docs/alerts.md#"+lower[i]+`"`) {
			t.Errorf("no panel of the dashboard links to %s", name)
		}
	}
	for where, found := range map[string][]string{
		"tests that fire":   names(rulesTests, `^ *- alertname: (\w+)\n.*\n *exp_alerts:\n`),
		"tests that do not": slices.Compact(names(rulesTests, `^ *- \{alertname: (\w+), eval_time: \w+\}$`)[2:]),
		"chapters":          names(root+"/docs/alerts.md", `^## (\w+)$`),
		"links":             names(rules, `^ *runbook_url: \S*/docs/alerts.md#(\w+)$`),
	} {
		want := alerts
		if where == "links" {
			want = lower
		}
		if !slices.Equal(found, want) {
			t.Errorf("%s: %v, want %v", where, found, want)
		}
	}
}
