package docs

import (
	"regexp"
	"testing"

	"go.yaml.in/yaml/v4"
)

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
	if err := yaml.Load([]byte(read(t, "deploy/prometheus/rules.yaml")), &rules); err != nil {
		t.Fatal(err)
	}
	// What only puts relays of one database together is left out.
	together := regexp.MustCompile(` \* on \([^)]*\) group_left \([^)]*\) (cdc_relay_info(\{.*?\})?|group by \([^)]*\) \(last_over_time\(.*?\)\))| (by|on) \([^)]*\)`)
	want := read(t, page)
	for _, r := range rules.Groups[1].Rules { // the first group records
		head := "**" + r.Labels["severity"] + "** if `" + together.ReplaceAllString(r.Expr, "") + "`"
		if r.For != "" {
			head += " for " + r.For
		}
		want = regexp.MustCompile(`(?m)^## `+r.Alert+`\n(\n> .*\n)?`).ReplaceAllLiteralString(want, "## "+r.Alert+"\n\n> "+head+"\n")
	}
	current(t, page, want)
}
